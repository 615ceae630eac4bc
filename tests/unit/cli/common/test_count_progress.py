from __future__ import annotations

import itertools
import logging
import os
import pty
import re
import subprocess
import sys

import pytest

from fencepost.cli.common import count_progress
from fencepost.cli.common.count_progress import shown_count
from tests.support.processes import wait_for

_SHOW = """
import itertools, time
looks = itertools.count()
from fencepost.cli.common.count_progress import shown_count
with shown_count("Checking t", "records", lambda: 12000 + 300 * next(looks), 50000):
    time.sleep(1)
"""


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(count_progress, "COUNT_LINE_SECONDS", 0.01)

    with shown_count("Checking t", "records", lambda: 12_345, 50_000):
        wait_for(lambda: "Checking t: 12,345 records (25%) so far, 0.0 records/s" in caplog.text)
    growing = itertools.count()
    with shown_count("Fetching x", "MB", lambda: next(growing)):
        wait_for(lambda: re.search(r"Fetching x: 7 MB so far, [1-9][0-9.]* MB/s", caplog.text) is not None)


def test_a_terminal_has_a_bar() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    subprocess.run([sys.executable, "-c", _SHOW], stderr=theirs, env=environment, check=True, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)

    assert "Checking t" in shown
    assert "12,600 records" in shown
    assert re.search(r"[1-9][0-9,.]* records/s", shown)
