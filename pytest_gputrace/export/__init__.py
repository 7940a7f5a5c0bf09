"""The exporter: profiler events to one qualified file per capture, and the legacy file beside it."""
