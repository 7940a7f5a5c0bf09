"""Run the benchmarks that are named (``export``, ``profile``, ``load``, ``cluster``, ``contract``, ``check``), or all of them."""

from __future__ import annotations

import argparse

from benchmarks import check, cluster, contract, export, load, profile

ALL = {
    "export": export.main,
    "profile": profile.main,
    "load": load.main,
    "cluster": cluster.main,
    "contract": contract.main,
    "check": check.main,
}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ALL, []], default=[], help="default: all")
    parser.add_argument("--pairs", type=int, help="pairs measured; the median is printed (default: 9, of check 5)")
    parser.add_argument(
        "--size", type=int, default=100, metavar="MB", help="of the traces that check reads (default: 100)"
    )
    options = parser.parse_args()
    for name in options.names or ALL:
        if name == "check":
            check.main(options.pairs or 5, options.size)
        else:
            ALL[name](options.pairs or 9)


if __name__ == "__main__":
    main()
