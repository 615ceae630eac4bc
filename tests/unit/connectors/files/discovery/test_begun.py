"""A file that was read before is read on at once, even if it is not settled; any other file has to settle first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.api.errors import DataError
from tests.unit.connectors.files.renaming import Reader, lines, text

pytestmark = pytest.mark.usefixtures("short_waits")


def settle(path: Path) -> None:
    os.utime(path, (0, 0))


def append(path: Path, *numbers: int) -> None:
    with path.open("a") as file:
        file.write(text(*numbers))


def settling(files: object, **properties: str) -> Reader:
    return Reader(files, files_settle_ms="60000", **properties)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A file that has settled."""
    log = tmp_path / "log"
    log.write_text(text(1, 2))
    settle(log)
    return log


@pytest.fixture
def rotated(tmp_path: Path) -> Path:
    return tmp_path / "log.1"


def rotate(log: Path, rotated: Path) -> None:
    """Rename the file, which is still written to, and create a new file of its old name that has settled."""
    log.rename(rotated)
    append(rotated, 3)
    log.write_text(text(4))
    settle(log)


def test_a_renamed_file_that_is_still_written_to_is_read_on_beside_a_new_one(log: Path, rotated: Path) -> None:
    reader = settling(f"{log}*")
    assert reader.read_all() == lines(1, 2)
    rotate(log, rotated)
    reader.restart()
    assert sorted(reader.read_all()) == lines(1, 2, 3, 4)


def test_a_new_file_settles_also_if_another_one_is_read_on(log: Path, rotated: Path) -> None:
    new = log.with_suffix(".2")
    reader = settling(f"{log}*")
    assert reader.read_all() == lines(1, 2)
    log.rename(rotated)
    append(rotated, 3)
    new.write_text(text(4))
    reader.restart()
    assert reader.read_all() == lines(1, 2, 3)
    settle(new)
    reader.restart()
    assert reader.read_all() == lines(1, 2, 3, 4)


@pytest.mark.parametrize("commits", [True, False])
def test_a_file_may_be_renamed_before_the_commit_of_its_first_records(
    log: Path, rotated: Path, *, commits: bool
) -> None:
    """Until another task has started, the earlier one may commit the records that it read."""
    reader = settling(f"{log}*")
    commit = reader.poll_before_commit()
    rotate(log, rotated)
    reader.look(given=commit if commits else bool)
    assert sorted(reader.read_all()) == (lines(1, 2, 3, 4) if commits else lines(4))
    settle(rotated)
    reader.look()
    assert sorted(reader.read_all()) == lines(1, 2, 3, 4)


def test_a_file_that_is_renamed_as_its_connector_starts_is_not_read_again(log: Path, rotated: Path) -> None:
    """The connector's new run has read the offsets before its task's previous run commits."""
    reader = Reader(f"{log}*")
    commit = reader.poll_before_commit()
    log.rename(rotated)
    with pytest.raises(DataError, match=f"The file {rotated} was read as {log}"):
        reader.restart(given=commit)
    reader.restart()
    assert reader.read_all() == lines(1, 2)


def test_a_file_that_is_renamed_over_a_new_one_as_tasks_start_is_found_later(log: Path, rotated: Path) -> None:
    reader = Reader(f"{log}*")
    assert reader.read_all() == lines(1, 2)
    rotated.write_text(text(3))
    reader.restart(given=lambda: log.rename(rotated))
    reader.look()
    assert reader.read_all() == lines(1, 2)


def test_a_new_file_with_the_inode_of_a_deleted_one_settles_first(log: Path, rotated: Path) -> None:
    reader = settling(f"{log}*")
    assert reader.read_all() == lines(1, 2)
    log.rename(rotated).write_text(text(3, 4, 5))
    for look in (reader.look, reader.restart, reader.look):
        look()
        assert reader.read_all() == lines(1, 2)
    append(rotated, 6)
    settle(rotated)
    reader.look()
    assert reader.read_all() == lines(1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize("same_inode", [True, False])
def test_a_new_file_of_an_old_name_settles_first(log: Path, tmp_path: Path, *, same_inode: bool) -> None:
    new = tmp_path / "new"
    if same_inode:
        new.hardlink_to(log)
    reader = settling(f"{log}*", files_after_end="delete")
    assert reader.read_all() == lines(1, 2)
    assert not log.exists()
    new.write_text(text(3))
    new.rename(log)
    for look in (bool, reader.look):
        look()
        assert reader.read_all() == lines(1, 2)
    append(log, 4)
    settle(log)
    assert reader.read_all() == lines(1, 2, 3, 4)


@pytest.mark.parametrize("respelled", [str, lambda files: f"{Path(files).parent}/./{Path(files).name}"])
def test_a_file_that_grows_is_read_on_after_a_restart(log: Path, respelled: Callable[[str], str]) -> None:
    reader = settling(f"{log}*")
    assert reader.read_all() == lines(1, 2)
    append(log, 3)
    reader.properties["files"] = respelled(f"{log}*")
    reader.restart()
    assert reader.read_all() == lines(1, 2, 3)


def test_a_begun_file_is_found_by_each_scan_until_it_is_known(log: Path, rotated: Path, tmp_path: Path) -> None:
    """A scan during a rename is repeated, and only names that both scans found alike count."""
    reader = settling(tmp_path / "log*")
    assert reader.read_all() == lines(1, 2)
    away, other = log.rename(tmp_path / "away"), tmp_path / "log.2"
    other.write_text(text(4))
    settle(other)
    reader.look()
    assert reader.read_all() == lines(1, 2, 4)
    append(away.rename(rotated), 3)
    other.rename(tmp_path / "log.3")
    reader.look()
    assert sorted(reader.read_all()) == lines(1, 2, 3, 4)
