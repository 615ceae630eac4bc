"""The folder for sockets is removed at the end of its process, or after a kill by the next process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fencepost.java.process_folder import ProcessFolder

_HOLDS = "from fencepost.java.process_folder import FOLDER; print(FOLDER.new_path().parent, flush=True); input()"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def holder(temporary: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _HOLDS],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_folder_is_removed_with_its_process(temporary: Path):
    folder = ProcessFolder()
    first, second = folder.new_path(), folder.new_path()
    assert first != second
    assert first.parent == second.parent
    assert first.parent.stat().st_mode & 0o077 == 0
    folder.close()
    assert list(temporary.iterdir()) == []
    assert folder.new_path().parent.exists()
    folder.close()


def test_a_folder_that_somebody_removed_is_made_again(temporary: Path):
    folder = ProcessFolder()
    shutil.rmtree(folder.new_path().parent)
    assert folder.new_path().parent.is_dir()
    folder.close()
    assert list(temporary.iterdir()) == []


def test_a_folder_of_a_killed_process_is_removed_and_one_of_a_living_process_is_not(temporary: Path):
    with holder(temporary) as killed, holder(temporary) as living:
        abandoned, used = (Path(one.stdout.readline().strip()) for one in (killed, living) if one.stdout)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert abandoned.exists()
        folder = ProcessFolder()
        own = folder.new_path().parent
        assert set(temporary.iterdir()) == {used, own}
        folder.close()
        living.communicate("\n")
    assert list(temporary.iterdir()) == []
