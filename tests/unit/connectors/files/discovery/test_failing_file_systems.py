"""A file that is unreadable for a while is not deleted: its rows would be read again, or it would never be removed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from fencepost import FencepostError
from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.files.content.identity import FileIdentity
from fencepost.connectors.files.discovery.ended import AfterEnd, Mark, take_away
from tests.unit.connectors.files.discovery.test_ended import Committed, polled, properties
from tests.unit.connectors.files.test_file_source import tasks

pytestmark = pytest.mark.usefixtures("short_waits")

CALLS = ("stat", "lstat", "open", "unlink", "replace")

numbers = pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.EACCES])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.txt"
    path.write_text("1\n")
    return path


def failing(monkeypatch: pytest.MonkeyPatch, path: Path, number: int) -> None:
    """Make all system calls for a file fail, as when its server does not answer."""
    for call in CALLS:
        system: Any = getattr(os, call)

        def fail(given: Any, *more: Any, system: Any = system, **options: Any) -> Any:
            if given == str(path):
                raise OSError(number, os.strerror(number), given)
            return system(given, *more, **options)

        monkeypatch.setattr(os, call, fail)


@numbers
def test_a_file_whose_server_fails_at_the_commit_of_its_end_is_not_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    offsets: Any = Committed()
    [task] = tasks(properties(path), offsets=offsets)
    offsets.commit(task, polled(task))
    end = polled(task)
    with monkeypatch.context() as patched:
        failing(patched, path, number)
        offsets.commit(task, end)
    if number != errno.ESTALE:
        with pytest.raises(FencepostError, match=r"cannot be (read|deleted)"):
            task.poll()
        [task] = tasks(properties(path), offsets=offsets)
    for _ in range(2):
        batch = polled(task)
        assert list(batch.splits) == []
        offsets.commit(task, batch)
    assert not path.exists()
    assert offsets.of_files == {}
    assert task.at_end()


@numbers
@pytest.mark.parametrize("after_end", [AfterEnd.DELETE, AfterEnd.MOVE])
def test_a_file_that_cannot_be_taken_away_is_reported(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, after_end: AfterEnd
) -> None:
    folder = tmp_path / "done"
    folder.mkdir()
    failing(monkeypatch, path, number)
    with pytest.raises(FencepostError, match=r"data\.txt"):
        take_away(str(path), after_end, str(folder))
    assert list(folder.iterdir()) == []


@numbers
def test_a_file_that_cannot_be_looked_at_is_not_another_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    mark = Mark.of(str(path), ANYWHERE)
    assert mark is not None
    with path.open("rb", buffering=0) as file:
        identity = FileIdentity.of(file, 2, plain=True)
    failing(monkeypatch, path, number)
    for known in (mark, identity):
        with pytest.raises(FencepostError, match=r"data\.txt"):
            known.is_at(str(path), ANYWHERE)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.ELOOP])
def test_a_file_that_is_gone_is_not_missed(path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    mark = Mark.of(str(path), ANYWHERE)
    assert mark is not None
    with path.open("rb", buffering=0) as file:
        identity = FileIdentity.of(file, 2, plain=True)
    failing(monkeypatch, path, number)
    assert not mark.is_at(str(path), ANYWHERE)
    assert not identity.is_at(str(path), ANYWHERE)
    take_away(str(path), AfterEnd.DELETE, None)


def test_a_stale_file_does_not_keep_other_files_from_being_taken_away(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("2\n")
    offsets: Any = Committed()
    [task] = tasks(properties(tmp_path / "*"), offsets=offsets)
    offsets.commit(task, polled(task))
    with monkeypatch.context() as patched:
        patched.setattr(task, "_next_batch", list)
        failing(patched, path, errno.ESTALE)
        offsets.commit(task, polled(task))
        assert not other.exists()
    for _ in range(3):
        offsets.commit(task, polled(task))
    assert not path.exists()
    assert offsets.of_files == {}


def test_a_file_that_stays_stale_at_the_commit_of_its_end_is_told_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    offsets: Any = Committed()
    [task] = tasks(properties(path), offsets=offsets)
    offsets.commit(task, polled(task))
    end = polled(task)
    with monkeypatch.context() as patched:
        failing(patched, path, errno.ESTALE)
        for _ in range(3):
            for _ in range(2):
                offsets.commit(task, end)
            end = polled(task)
            assert len(end.offsets) == 1
    assert caplog.text.count("was removed or replaced on its file server") == 1
    offsets.commit(task, end)
    assert not path.exists()


def test_a_directory_that_may_not_be_listed_takes_files_of_another_file_system(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "done"
    folder.mkdir()
    system, replace = os.open, os.replace

    def opened(given: Any, *more: Any, **options: Any) -> int:
        if given == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), given)
        return system(given, *more, **options)

    def within_a_directory(source: Any, target: Any) -> None:
        if source == str(path):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        replace(source, target)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "replace", within_a_directory)
    take_away(str(path), AfterEnd.MOVE, str(folder))
    assert not path.exists()
    assert [file.name for file in folder.iterdir()] == [path.name]
