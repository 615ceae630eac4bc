"""Shows the progress of counted work: as a bar on a terminal, else in a log line from time to time."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_log: Final = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.25
LINE_SECONDS: Final = 30.0
"""The interval between log lines."""


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

    def show() -> None:
        now = count()
        share = "" if not total else f" ({min(1.0, now / total):.0%})"
        _log.info("%s: %s %s%s so far", what, f"{now:,.0f}", unit, share)

    if not sys.stderr.isatty():
        with repeated(show, LINE_SECONDS):
            yield
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn(f"{{task.completed:,.0f}} {unit}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        with repeated(lambda: progress.update(task, completed=count()), _LOOK_SECONDS):
            yield
