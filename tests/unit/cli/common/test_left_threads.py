"""The end of a process in which plugins' threads still run."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys, threading
from fencepost.cli.common.left_threads import end_without_threads

threading.Thread(target=threading.Event().wait, name="left", daemon={daemon}).start()
end_without_threads(3, patience_s=0.1)
sys.exit(3)
"""


def test_a_process_ends_although_a_thread_is_left() -> None:
    ended = _run(daemon=False)

    assert ended.returncode == 3
    assert "threads of plugins still run: left." in ended.stderr


def test_a_process_without_leftover_threads_ends_normally() -> None:
    ended = _run(daemon=True)

    assert (ended.returncode, ended.stderr) == (3, "")


def _run(*, daemon: bool) -> subprocess.CompletedProcess[str]:
    program = _PROGRAM.format(daemon=daemon)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
