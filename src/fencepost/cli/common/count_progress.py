"""Shows the progress of counted work: as a bar on a terminal, else in a log line from time to time."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

_log: Final = logging.getLogger(__name__)

_REFRESH_SECONDS: Final = 0.25
_SHORTEST_SECONDS: Final = 0.001
COUNT_LINE_SECONDS: Final = 10.0
"""The interval between log lines about a count, in seconds. It is short, because somebody waits for the end."""
LINE_SECONDS: Final = 30.0
"""The interval between log lines about a transfer, in seconds."""


class _RateColumn(ProgressColumn):
    """The counts per second, over the last half minute."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """Return the rate, or nothing before it is known."""
        return Text("" if task.speed is None else f"{task.speed:,.1f} {self._unit}/s")


@contextmanager
def repeated(show: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call a function every few seconds, on a separate thread, during the block."""
    stopping = threading.Event()

    def run() -> None:
        while not stopping.wait(seconds):
            show()

    thread = threading.Thread(target=run, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


@contextmanager
def shown_count(what: str, unit: str, count: Callable[[], float], total: float | None = None) -> Iterator[None]:
    """Show how far a count has come during the block. `total` is its expected end, None if that is unknown."""
    last, last_at = count(), time.monotonic()

    def show() -> None:
        nonlocal last, last_at
        now, at = count(), time.monotonic()
        share = "" if not total else f" ({min(1.0, now / total):.0%})"
        rate = (now - last) / max(at - last_at, _SHORTEST_SECONDS)
        last, last_at = now, at
        _log.info("%s: %s %s%s so far, %s %s/s", what, f"{now:,.0f}", unit, share, f"{rate:,.1f}", unit)

    if not sys.stderr.isatty():
        with repeated(show, COUNT_LINE_SECONDS):
            yield
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn(f"{{task.completed:,.0f}} {unit}", markup=False),
        _RateColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        with repeated(lambda: progress.update(task, completed=count()), _REFRESH_SECONDS):
            yield
