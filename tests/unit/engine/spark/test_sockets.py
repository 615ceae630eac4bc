"""Spark's JVM and Python use sockets in a folder of this user only, or TCP if its path is too long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fencepost.engine.spark.sockets import SocketFolder

_ENABLED = "spark.python.unix.domain.socket.enabled"
_FOLDER = "spark.python.unix.domain.socket.dir"


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a short path: the path of `tmp_path` may be too long for a socket."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_sockets_are_in_a_folder_that_only_the_user_can_enter(temporary: Path):
    sockets = SocketFolder()
    folder = Path(sockets.settings({_ENABLED: "true"})[_FOLDER])
    assert folder.parent == temporary
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sockets.settings({_ENABLED: "true"}) == {_FOLDER: str(folder)}
    (folder / ".left.sock").touch()
    sockets.remove()
    temporary.rmdir()


def test_a_path_too_long_for_a_socket_means_tcp(temporary: Path, monkeypatch: pytest.MonkeyPatch):
    long = temporary / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert SocketFolder().settings({_ENABLED: "true"}) == {_ENABLED: "false"}
    long.rmdir()
    temporary.rmdir()


@pytest.mark.parametrize(
    "given", [{}, {_ENABLED: "false"}, {_ENABLED: "true", _FOLDER: "/mine"}], ids=["cluster", "TCP", "the user's"]
)
def test_the_users_choice_of_sockets_stays(temporary: Path, given: dict[str, str]):
    assert SocketFolder().settings(given) == {}
    temporary.rmdir()


_HOLD = f"""
import sys, tempfile
from fencepost.engine.spark.sockets import SocketFolder
tempfile.tempdir = sys.argv[1]
sockets = SocketFolder()
print(sockets.settings({{"{_ENABLED}": "true"}})["{_FOLDER}"], flush=True)
sys.stdin.read()
"""


def test_the_folder_of_a_process_that_was_killed_is_removed_by_another(temporary: Path):
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(temporary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        used = Path(process.stdout.readline().strip())
        (used / ".left.sock").touch()
        sockets = SocketFolder()
        sockets.settings({_ENABLED: "true"})
        assert used.is_dir(), "its process is alive"
        sockets.remove()
        process.send_signal(signal.SIGKILL)
    sockets.settings({_ENABLED: "true"})
    assert not used.exists()
    sockets.remove()
    temporary.rmdir()


def test_a_file_with_the_name_of_a_folder_stays(temporary: Path):
    kept = temporary / "kept"
    kept.mkdir()
    (temporary / "fencepost-sockets-link").symlink_to(kept)
    (temporary / "fencepost-sockets-file").touch()
    sockets = SocketFolder()
    sockets.settings({_ENABLED: "true"})
    sockets.remove()
    assert sorted(path.name for path in temporary.iterdir()) == [
        "fencepost-sockets-file",
        "fencepost-sockets-link",
        "kept",
    ]


def test_the_folder_of_another_user_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch):
    other = temporary / "fencepost-sockets-other"
    other.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: other.stat().st_uid + 1)
    sockets = SocketFolder()
    sockets.settings({_ENABLED: "true"})
    sockets.remove()
    assert other.is_dir()
    other.rmdir()
    temporary.rmdir()
