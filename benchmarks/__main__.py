"""Run the benchmarks that are named, or all: export, profile, control, load, cluster, contract, check, merge."""

from __future__ import annotations

import argparse

from benchmarks import check, cluster, contract, control, export, load, merge, profile

ALL = {
    "export": export.main,
    "profile": profile.main,
    "control": control.main,
    "load": load.main,
    "cluster": cluster.main,
    "contract": contract.main,
}
# On large traces: these take a size, too.
LARGE = {"check": check.main, "merge": merge.main}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ALL, *LARGE, []], default=[], help="default: all")
    parser.add_argument(
        "--pairs", type=int, help="pairs measured; the median is printed (default: 9, of check and merge 5)"
    )
    parser.add_argument(
        "--size", type=int, default=100, metavar="MB", help="of the traces that check and merge read (default: 100)"
    )
    options = parser.parse_args()
    for name in options.names or [*ALL, *LARGE]:
        if name in LARGE:
            LARGE[name](options.pairs or 5, options.size)
        else:
            ALL[name](options.pairs or 9)


if __name__ == "__main__":
    main()
