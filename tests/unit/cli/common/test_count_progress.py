from __future__ import annotations

import logging
import os
import pty
import subprocess
import sys

import pytest

from fencepost.cli.common import count_progress
from fencepost.cli.common.count_progress import shown_count
from tests.support.processes import wait_for

_SHOW = """
import time
from fencepost.cli.common.count_progress import shown_count
with shown_count("Checking t", "records", lambda: 12345, 50000):
    time.sleep(1)
"""


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(count_progress, "LINE_SECONDS", 0.01)

    with shown_count("Checking t", "records", lambda: 12_345, 50_000):
        wait_for(lambda: "Checking t: 12,345 records (25%) so far" in caplog.text)
    with shown_count("Fetching x", "MB", lambda: 7):
        wait_for(lambda: "Fetching x: 7 MB so far" in caplog.text)


def test_a_terminal_has_a_bar() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    subprocess.run([sys.executable, "-c", _SHOW], stderr=theirs, env=environment, check=True, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)

    assert "Checking t" in shown
    assert "12,345 records" in shown
