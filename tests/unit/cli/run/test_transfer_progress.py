from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from fencepost.cli.common.tables import shown_size
from fencepost.cli.run.transfer_progress import Estimate, summary
from fencepost.runtime.metrics.transaction_metrics import TransferCounts
from fencepost.runtime.metrics.transfers import Transfer
from tests.support.clock import Clock


def _transfer(records: int, share: float | None, *, open_records: int = 0) -> Transfer:
    return Transfer(TransferCounts(records=records, bytes=records * 100, open=open_records, transactions=3), share)


def test_the_rate_covers_the_last_seconds_and_the_time_left_the_whole() -> None:
    clock = Clock()
    estimate = Estimate(clock)
    estimate.of("c", _transfer(0, 0.0))
    clock.now += 20
    estimate.of("c", _transfer(200, 0.2))
    clock.now += 10

    shown = estimate.of("c", _transfer(1_200, 0.6))

    assert shown.rate == pytest.approx(100)
    assert shown.seconds_left == pytest.approx(20)
    assert shown.text() == "1,200 rows  120 kB  100 rows/s  3 transactions  0:00:20 left"


def test_a_transfer_is_not_complete_before_its_last_commit() -> None:
    estimate = Estimate(Clock())

    assert estimate.of("c", _transfer(10, 1.0, open_records=5)).share == pytest.approx(0.99)
    assert estimate.of("c", _transfer(15, 1.0)).share == 1.0
    assert estimate.of("c", _transfer(15, 1.0)).seconds_left is None


def test_without_a_known_size_nothing_is_guessed() -> None:
    shown = Estimate(Clock()).of("c", _transfer(10, None, open_records=5))

    assert (shown.share, shown.seconds_left) == (None, None)
    assert shown.text() == "10 rows (+5 not committed)  1.0 kB  0 rows/s  3 transactions"


def test_an_abort_does_not_make_the_rate_negative() -> None:
    clock = Clock()
    estimate = Estimate(clock)
    estimate.of("c", _transfer(10, None, open_records=50))
    clock.now += 1

    assert estimate.of("c", _transfer(10, None)).rate == 0


def test_the_summary_counts_skipped_records_and_aborts() -> None:
    counts = TransferCounts(records=1_000, bytes=2_500_000, transactions=4, aborted=1, skipped=7)

    assert summary("lines", counts, 10.0) == (
        "lines: 1,000 rows, 2.5 MB in 4 transactions (1 more aborted), 7 skipped, in 0:00:10 (100 rows/s)"
    )


def test_one_of_a_kind_is_singular_and_small_sizes_are_shown() -> None:
    counts = TransferCounts(records=1, bytes=42, transactions=1)

    assert summary("lines", counts, 1.0) == "lines: 1 row, 42 bytes in 1 transaction, 0 skipped, in 0:00:01 (1 rows/s)"


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (101_400_000, "101 MB"),
        (2_900_000_000, "2.9 GB"),
        (7_000_000_000_000, "7,000 GB"),
    ],
)
def test_sizes_are_shown_in_the_unit_that_fits(count: int, shown: str) -> None:
    assert shown_size(count) == shown


_SHOW = """
import time
from fencepost.cli.run.transfer_progress import shown_progress
from fencepost.runtime.metrics.transaction_metrics import TransferCounts
from fencepost.runtime.metrics.transfers import Transfer

class Transfers:
    def of_connectors(self):
        return {"lines": Transfer(TransferCounts(1_000, 2_500_000, open=2_653_506, transactions=12, skipped=7), 0.5)}

with shown_progress(Transfers()):
    time.sleep(1)
"""


def test_a_terminal_of_80_columns_shows_everything() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    subprocess.run([sys.executable, "-c", _SHOW], stderr=theirs, env=environment, check=True, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)

    live = " ".join(shown.partition("lines: ")[0].split())
    for part in ("lines ", "50%", "(+2,653,506 not committed)", "2.5 MB", "0 rows/s", "12 transactions", "7 skipped"):
        assert part in live
