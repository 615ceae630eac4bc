"""`python -m tests.chaos.soak --minutes 10 --seed 7`; see the package."""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

from fencepost.cli.common.tables import print_table
from fencepost.cli.verify.verify_report import print_report
from tests.chaos.soak.run import Outcome, soak
from tests.chaos.soak.schedule import Size, actions

SIZE = Size(workers=3, brokers=3, connectors=6, session_s=6, postgres=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long the group is shaken (10)")
    parser.add_argument("--seed", type=int, default=None, help="what is done, and when; else chance")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="fencepost-soak-"))
    start = time.monotonic()

    def tell(text: str) -> None:
        _say(f"{time.monotonic() - start:7.1f} s  {text}")

    _say(f"Seed {seed}, {options.minutes:g} minutes, logs in {folder}")
    outcome = soak(folder, actions(seed, SIZE), options.minutes * 60, SIZE, tell)
    _show(outcome)
    if outcome.sound:
        shutil.rmtree(folder)
        _say(f"Sound after {outcome.actions} actions. Seed {seed}")
        return 0
    _say(f"NOT sound after {outcome.actions} actions: the logs are in {folder}. To do the same again:")
    _say(f"  make chaos MINUTES={options.minutes:g} SEED={seed}")
    return 1


def _show(outcome: Outcome) -> None:
    columns = ("connector", "records", "source partitions", "lost", "duplicates", "out of order", "not numbered")
    rows = []
    for name, report in outcome.reports.items():
        numbers = report.numbers
        assert numbers is not None
        found = (numbers.lost, numbers.duplicates, numbers.out_of_order, numbers.skipped)
        wrong_offsets = len(report.offset_mismatches or ())
        rows.append((name, *map(str, (report.records, len(numbers.partitions), *found, wrong_offsets, report.aborted))))
    print_table((*columns, "wrong offsets", "of aborted transactions"), rows)
    print_table(("done", "times"), [(what, str(times)) for what, times in outcome.counts.items()])
    for report in outcome.reports.values():
        if not report.sound:
            print_report(report, as_json=False)
    for error in outcome.logged:
        _say(f"Logged: {error}")
    for fault in outcome.faults:
        _say(f"Fault: {fault}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
