"""Files whose time or inode changes and whose bytes do not: a later rename is recognised."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.files.content.identity import FileIdentity, FileTrack, stamp_of
from fencepost.connectors.files.content.ranges import open_file
from tests.unit.connectors.files.renaming import Reader, forms, lines, text

pytestmark = pytest.mark.usefixtures("short_waits")


def touch(path: Path) -> None:
    """Set a modification time that the file cannot have had: file systems may have coarse clocks."""
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def write_anew(path: Path) -> None:
    """Replace the file by a new one with the same bytes, as editors do."""
    Path(shutil.copy(path, path.parent.with_name("anew"))).replace(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


@forms
@pytest.mark.parametrize("change", [touch, write_anew])
@pytest.mark.parametrize("running", [False, True], ids=["restarted", "running"])
def test_a_file_that_was_touched_and_then_renamed_is_not_read_again(
    write: Any, change: Callable[[Path], None], running: bool, folder: Path
) -> None:
    path = folder / "a"
    reader = Reader(folder / "*", **write(path))
    assert len(reader.read_all()) == 2
    change(path)
    # The connector's scan finds another inode.
    if not running or change is write_anew:
        reader.restart()
    assert len(reader.read_all()) == 2
    path.rename(folder / "b")
    reader.restart()
    assert len(reader.read_all()) == 2
    assert list(reader.offsets.of_files) == [str(folder / "b")]


def test_a_file_that_grows_after_a_touch_goes_on_where_it_was(folder: Path) -> None:
    path = folder / "a"
    path.write_text(text(1, 2))
    reader = Reader(folder / "*")
    reader.read_all()
    touch(path)
    # The offset of this batch is not committed.
    assert reader.poll(commits=False)
    with path.open("a") as file:
        file.write(text(3))
    reader.read_all()
    touch(path)
    reader.read_all()
    path.rename(folder / "b")
    reader.restart()
    assert reader.read_all() == lines(1, 2, 3)


def test_many_files_that_were_touched_share_batches_with_rows_of_others(folder: Path) -> None:
    for name in "abcd":
        (folder / name).write_text(f"n\n{name}\n")
    reader = Reader(folder / "*", format="csv", header="true", schema="n STRING")
    assert len(reader.read_all()) == 4
    for name in "abd":
        touch(folder / name)
    with (folder / "c").open("a") as file:
        file.write("more\n")
    assert reader.poll()
    assert not reader.poll()
    for name in "abcd":
        (folder / name).rename(folder / f"{name}1")
    reader.restart()
    assert len(reader.read_all()) == 5


@pytest.mark.parametrize("change", [lambda path: path.chmod(0o600), lambda path: os.link(path, f"{path.parent}.link")])
def test_a_change_of_the_status_alone_commits_nothing(change: Callable[[Path], None], folder: Path) -> None:
    path = folder / "a"
    path.write_text(text(1))
    reader = Reader(folder / "*")
    reader.read_all()
    change(path)
    assert not reader.poll()
    path.rename(folder / "b")
    reader.restart()
    assert reader.read_all() == lines(1)


def test_an_incomplete_row_that_grows_commits_nothing(folder: Path) -> None:
    path = folder / "a"
    path.write_text(text(1))
    reader = Reader(folder / "*")
    reader.read_all()
    with path.open("a") as file:
        file.write("li")
    assert not reader.poll()
    path.rename(folder / "b")
    reader.restart()
    assert reader.read_all() == lines(1)


def test_a_file_that_is_exchanged_while_it_is_checked_is_looked_at_again(folder: Path) -> None:
    """The new file may be one that is read under another name as well."""
    path = folder / "a"
    path.write_text(text(1))
    with open_file(str(path), ANYWHERE) as file:
        known = FileIdentity.of(file, path.stat().st_size, plain=True)
    track = FileTrack(str(path), known, ANYWHERE)
    touch(path)
    seen = stamp_of(path.stat())
    write_anew(path)
    assert not track.follow(seen, None, None, plain=True)
    assert track.identity == known
    assert track.follow(stamp_of(path.stat()), None, None, plain=True)
    assert not track.was_moved
