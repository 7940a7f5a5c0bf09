"""Ratios against named rivals, both measured in the same run; ``python -m benchmarks`` prints the tables."""
