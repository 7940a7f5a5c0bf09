"""Run the benchmarks that are named (``export``, ``profile``, ``load``, ``cluster``, ``contract``), or all of them."""

from __future__ import annotations

import argparse

from benchmarks import cluster, contract, export, load, profile

ALL = {
    "export": export.main,
    "profile": profile.main,
    "load": load.main,
    "cluster": cluster.main,
    "contract": contract.main,
}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ALL, []], default=[], help="default: all")
    parser.add_argument("--pairs", type=int, default=9, help="pairs measured; the median is printed")
    options = parser.parse_args()
    for name in options.names or ALL:
        ALL[name](options.pairs)


if __name__ == "__main__":
    main()
