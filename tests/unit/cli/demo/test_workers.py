"""The worker of a demo says what it waits for."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from rich.console import Console

from fencepost.cli.demo import workers
from fencepost.cli.demo.workers import KILLS, DemoWorker


class _IdleWorker(DemoWorker):
    """A worker that does nothing."""

    @contextmanager
    def running(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        del options
        with subprocess.Popen(["sleep", "600"]) as worker:
            try:
                yield worker
            finally:
                worker.kill()


def test_each_wait_of_a_demo_begins_with_a_line_and_has_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(workers, "LINE_SECONDS", 0.0)
    shown, commits, orders = io.StringIO(), count(), count(1)
    console = Console(file=shown, width=200)

    def position() -> str:
        return str(next(commits) // 3)

    worker = _IdleWorker(tmp_path, tmp_path, tmp_path / "log")
    worker.run_with_kills(console, position, (3, 3), lambda: f"{next(orders)} orders")

    lines = shown.getvalue().splitlines()
    begun = [at for at, line in enumerate(lines) if "started; it is killed after some commits" in line]
    killed = [at for at, line in enumerate(lines) if "killed (SIGKILL) after" in line]
    assert len(begun) == len(killed) == KILLS, lines
    for start, end in zip(begun, killed, strict=True):
        assert any(line.startswith("... ") and "orders (" in line for line in lines[start:end]), lines
    [last] = [at for at, line in enumerate(lines) if "started again; it is stopped after some commits" in line]
    assert last > killed[-1]
