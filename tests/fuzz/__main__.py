"""Runs random cases of what is compared with others, each made by a seed.

python -m tests.fuzz --cases 100000 --seed 7          all
python -m tests.fuzz --cases 1 --seed 7 --only csv    the case that a message names
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time

_MODULES = {"csv": "tests.fuzz.csv_files", "values": "tests.fuzz.values"}
"""Modules with a function `run(cases, seed)`; it returns the number of cases, or raises AssertionError with a seed."""


def main() -> int:
    """Run the command line; the exit status is 1 if a case fails."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=100_000, help="how many to run of each (100000)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first one (0)")
    parser.add_argument("--only", choices=_MODULES, help="run this alone")
    options = parser.parse_args()
    for name in [options.only] if options.only else _MODULES:
        started = time.monotonic()
        try:
            cases = importlib.import_module(_MODULES[name]).run(options.cases, options.seed)
        except AssertionError as failure:
            sys.stderr.write(f"{name}: {failure}\n")
            return 1
        sys.stdout.write(f"{name}: {cases} cases in {time.monotonic() - started:.0f} s, all as expected\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
