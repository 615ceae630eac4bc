"""Spark's JVM and Python talk through sockets in a folder of this user only, or by TCP where its path is too long."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from fencepost.engine.spark.sockets import SocketFolder

_ENABLED = "spark.python.unix.domain.socket.enabled"
_FOLDER = "spark.python.unix.domain.socket.dir"


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A short path: that of `tmp_path` may be too long for a socket."""
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
