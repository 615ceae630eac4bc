"""Shows the progress of a standalone worker's connectors: live on a terminal, else in a log line from time to time.

    lines ━━━━━━━━━━━━━━━━━━━━  64%  1,204,000 rows  101 MB  2,100 rows/s  12 transactions  0:00:14 left

The percentage refers to the rest of the source at the start, as far as `lag()` of the tasks reports it.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

from fencepost.api.texts import printable
from fencepost.cli.common.count_progress import LINE_SECONDS, repeated
from fencepost.cli.common.logs import JsonFormatter
from fencepost.cli.common.tables import counted, shown_size
from fencepost.runtime.metrics.transaction_metrics import TransferCounts
from fencepost.runtime.metrics.transfers import Transfer, Transfers

_log: Final = logging.getLogger(__name__)

_REFRESH_SECONDS: Final = 0.25
_RATE_SECONDS: Final = 10.0
# More lines would not fit on a terminal: with more connectors, all of them share one line.
_MOST_LINES: Final = 12
# The largest share that is shown while records are not committed: even if everything was polled, the transfer is not
# complete.
_NEARLY: Final = 0.99


@dataclass(frozen=True, slots=True)
class Shown:
    """The displayed figures of a transfer. The rate is in rows per second, the time left in seconds, None if unknown."""

    counts: TransferCounts
    rate: float
    share: float | None
    seconds_left: float | None

    def text(self) -> str:
        """Return the figures as a line of text, without the percentage."""
        counts = self.counts
        parts = [
            counted(counts.records, "row") + (f" (+{counts.open:,} not committed)" if counts.open else ""),
            shown_size(counts.bytes),
            f"{self.rate:,.0f} rows/s",
            counted(counts.transactions, "transaction"),
        ]
        if counts.skipped:
            parts.append(f"{counts.skipped:,} skipped")
        if self.seconds_left is not None:
            parts.append(f"{timedelta(seconds=round(self.seconds_left))} left")
        return "  ".join(parts)


class Estimate:
    """Rates and times left, from the transfers seen so far. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started: dict[str, float] = {}
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def keep(self, names: Collection[str]) -> None:
        """Forget all connectors except `names`: they were deleted."""
        for known in (self._started, self._seen):
            for name in known.keys() - names:
                del known[name]

    def of(self, name: str, transfer: Transfer) -> Shown:
        """Return the displayed figures of a connector's transfer."""
        now, counts = self._clock(), transfer.counts
        started = self._started.setdefault(name, now)
        rows = counts.records + counts.open
        seen = self._seen.setdefault(name, deque())
        seen.append((now, rows))
        # One value from before the window stays, so that the values always cover the whole window.
        while len(seen) > 2 and seen[1][0] <= now - _RATE_SECONDS:
            seen.popleft()
        since, before = seen[0]
        # When a transaction is aborted, the number of rows falls.
        rate = max(0, rows - before) / (now - since) if now > since else 0.0
        share = transfer.share if transfer.share is None or not counts.open else min(transfer.share, _NEARLY)
        left = (now - started) * (1 - share) / share if share else None
        return Shown(counts, rate, share, left if share is not None and share < 1 else None)


def summary(name: str, counts: TransferCounts, seconds: float) -> str:
    """Return the line for a connector at the end."""
    rate = counts.records / seconds if seconds else 0.0
    aborted = f" ({counts.aborted:,} more aborted)" if counts.aborted else ""
    return (
        f"{printable(name)}: {counted(counts.records, 'row')}, {shown_size(counts.bytes)} in "
        f"{counted(counts.transactions, 'transaction')}{aborted}, {counts.skipped:,} skipped, in {timedelta(seconds=round(seconds))} "
        f"({rate:,.0f} rows/s)"
    )


def _to_log(line: str) -> None:
    _log.info("%s", line)


@contextmanager
def shown_progress(
    transfers: Transfers, *, quiet: bool = False, write_line: Callable[[str], None] = _to_log
) -> Iterator[None]:
    """Show the progress during the block, and a summary after it; without a terminal, `write_line` gets each line."""
    if quiet:
        yield
        return
    started = time.monotonic()
    live = sys.stderr.isatty() and not any(isinstance(h.formatter, JsonFormatter) for h in logging.root.handlers)
    with _live(transfers) if live else _written_lines(transfers, write_line):
        yield
    for name, transfer in transfers.of_connectors().items():
        line = summary(name, transfer.counts, time.monotonic() - started)
        if live:
            Console(stderr=True, markup=False, highlight=False).print(line, soft_wrap=True)
        else:
            write_line(line)


@contextmanager
def _live(transfers: Transfers) -> Iterator[None]:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        # On a narrow terminal this column takes two lines.
        TextColumn("{task.fields[figures]}", markup=False, table_column=Column()),
    )
    estimate = Estimate()
    lines: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress, _logs_above_it():

        def show() -> None:
            found = _lines(transfers.of_connectors())
            estimate.keep(found)
            for name in lines.keys() - found.keys():
                progress.remove_task(lines.pop(name))
            for name, transfer in found.items():
                estimated = estimate.of(name, transfer)
                if name not in lines:
                    lines[name] = progress.add_task(printable(name), total=None, figures="")
                percent = "" if estimated.share is None else f"{estimated.share:4.0%}  "
                progress.update(
                    lines[name],
                    total=None if estimated.share is None else 1.0,
                    completed=estimated.share or 0.0,
                    figures=percent + estimated.text(),
                )

        with repeated(show, _REFRESH_SECONDS):
            yield


@contextmanager
def _written_lines(transfers: Transfers, write_line: Callable[[str], None]) -> Iterator[None]:
    estimate = Estimate()
    before: dict[str, TransferCounts] = {}

    def show() -> None:
        found = _lines(transfers.of_connectors())
        estimate.keep(found)
        for name in before.keys() - found.keys():
            del before[name]
        for name, transfer in found.items():
            estimated = estimate.of(name, transfer)
            # An idle connector does not fill the log.
            if before.get(name, TransferCounts()) != estimated.counts:
                before[name] = estimated.counts
                percent = "" if estimated.share is None else f"{estimated.share:.0%}  "
                write_line(f"Progress of {name}: {percent}{estimated.text()}")

    with repeated(show, LINE_SECONDS):
        yield


def _lines(transfers: Mapping[str, Transfer]) -> Mapping[str, Transfer]:
    if len(transfers) <= _MOST_LINES:
        return transfers
    counts = sum((transfer.counts for transfer in transfers.values()), TransferCounts())
    return {f"{len(transfers)} connectors": Transfer(counts, None)}


@contextmanager
def _logs_above_it() -> Iterator[None]:
    """Let log handlers write to rich's replacement of stderr, which prints above the live lines."""
    handlers = [
        handler
        for handler in logging.root.handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.__stderr__
    ]
    for handler in handlers:
        handler.setStream(sys.stderr)
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(sys.__stderr__)
