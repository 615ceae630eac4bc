"""What `fencepost standalone` shows of its progress: on a terminal, in a log, and with --quiet."""

from __future__ import annotations

import logging
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli.main import run
from tests.support.topics import unique

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_SECONDS = 120


@pytest.fixture
def arguments(tmp_path: Path, bootstrap_servers: str, topic: str) -> list[str]:
    """A run of `fencepost standalone --once` for a file of 5,000 lines."""
    group = unique("group")
    source, worker, connector = tmp_path / "lines.txt", tmp_path / "worker.properties", tmp_path / "c.properties"
    source.write_text("".join(f"line {number}\n" for number in range(5_000)))
    worker.write_text(
        f"bootstrap.servers={bootstrap_servers}\ngroup.id={group}\nkey.converter={_STRING}\nvalue.converter={_STRING}\n"
        f"offset.storage.topic={group}-offsets\noffset.storage.partitions=1\nconfig.storage.topic={group}-configs\n"
    )
    connector.write_text(f"name=lines\nconnector.class=FileStreamSource\nfile={source}\ntopic={topic}\n")
    return [sys.executable, "-m", "fencepost", "standalone", "--once", str(worker), str(connector)]


def _on_a_terminal(arguments: list[str]) -> str:
    """Run with a terminal as stderr; return all that was shown."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(arguments, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "200"}) as process:
        os.close(theirs)
        shown = b""
        while part := _read(ours):
            shown += part
        assert process.wait(_SECONDS) == 0
    os.close(ours)
    return shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:
        # Linux raises an OSError once the other end of the terminal is closed.
        return b""


def test_a_terminal_shows_bars_and_at_the_end_a_summary(arguments: list[str]) -> None:
    shown = _on_a_terminal(arguments)

    assert re.search(
        r"lines: 5,000 rows, [\d.,]+ [kM]B in \d+ transactions?, 0 skipped, in 0:00:\d\d \([\d,]+ rows/s\)", shown
    )
    # The progress bar was shown, with the log above it.
    assert "━" in shown
    assert "Task lines-0 is RUNNING" in shown


@pytest.mark.usefixtures("_signal_handlers")
def test_the_summary_is_logged_as_one_line_unless_quiet(
    arguments: list[str], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    command = arguments[arguments.index("standalone") :]

    assert run([*command, "--quiet"]) == 0
    assert "rows/s" not in caplog.text
    assert run(command) == 0

    (line,) = [record for record in caplog.records if "rows/s" in record.getMessage()]
    assert line.levelno == logging.INFO
    # The first run has read all rows.
    assert line.getMessage().startswith("lines: 0 rows, 0 bytes in 0 transactions, 0 skipped, in 0:00:")
    assert "━" not in capsys.readouterr().err


@pytest.fixture
def _signal_handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)
