"""A new file gets the name or inode of a renamed or deleted file: its rows are read from its start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fencepost import DataError, SourceBatch
from tests.unit.connectors.files.renaming import Reader, forms, lines, text

pytestmark = pytest.mark.usefixtures("short_waits")


@forms
def test_a_new_file_under_an_old_name_of_a_deleted_one_is_read(write: object, tmp_path: Path) -> None:
    path = tmp_path / "a"
    reader = Reader(tmp_path / "*", **write(path))  # type: ignore[operator]
    reader.read_all()
    path.rename(tmp_path / "b")
    reader.restart()
    reader.read_all()
    assert list(reader.offsets.of_files) == [str(tmp_path / "b")]
    (tmp_path / "b").unlink()
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "a")  # type: ignore[operator]
    (tmp_path / "other" / "a").rename(path)
    reader.restart()
    assert len(reader.read_all()) == 4


def test_a_renamed_file_whose_offset_is_removed_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1, 2))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    (tmp_path / "a").rename(tmp_path / "b")
    reader.restart()
    reader.read_all()
    del reader.offsets.of_files[str(tmp_path / "b")]
    reader.restart()
    assert reader.read_all() == lines(1, 2, 1, 2)


def test_a_link_that_is_gone_does_not_take_the_offset_of_its_file_with_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1, 2))
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    reader = Reader(tmp_path / "*")
    assert reader.read_all() == lines(1, 2, 1, 2)
    (tmp_path / "a").unlink()
    reader.restart()
    assert reader.read_all() == lines(1, 2, 1, 2)
    assert list(reader.offsets.of_files) == [str(tmp_path / "b")]


@pytest.fixture
def taking(tmp_path: Path) -> Reader:
    """Moves files away once they are read; tests bring them back, because a new file may get a deleted one's inode."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "a.log").write_text(text(1, 2))
    return Reader(tmp_path / "*.log", files_after_end="move", files_move_to=str(tmp_path / "kept"))


@pytest.mark.parametrize("more", [(), (3,)], ids=["same", "longer"])
@pytest.mark.parametrize("name", ["a.log", "b.log"])
def test_a_file_that_begins_as_one_that_was_taken_away_is_read(
    taking: Reader, name: str, more: tuple[int, ...], tmp_path: Path
) -> None:
    taking.read_all()
    assert not taking.offsets.of_files
    with (tmp_path / "kept" / "a.log").open("a") as file:
        file.write(text(*more))
    (tmp_path / "kept" / "a.log").rename(tmp_path / name)
    taking.restart()
    assert taking.read_all() == lines(1, 2, 1, 2, *more)


def test_a_file_brought_back_is_read_if_the_worker_died_after_the_move(taking: Reader, tmp_path: Path) -> None:
    # The second poll finds the end of the file, which is then moved.
    assert [taking.poll(), taking.poll()] == [True, True]
    assert not (tmp_path / "a.log").exists()
    with (tmp_path / "kept" / "a.log").open("a") as file:
        file.write(text(3))
    (tmp_path / "kept" / "a.log").rename(tmp_path / "b.log")
    taking.restart()
    assert taking.read_all() == lines(1, 2, 1, 2, 3)


def test_a_file_that_is_renamed_between_its_end_and_its_move_is_not_read_again(taking: Reader, tmp_path: Path) -> None:
    assert taking.poll()
    (tmp_path / "kept").rmdir()
    assert taking.poll()
    with pytest.raises(DataError, match="cannot be moved"):
        taking.poll()
    (tmp_path / "kept").mkdir()
    (tmp_path / "a.log").rename(tmp_path / "b.log")
    taking.restart()
    assert taking.read_all() == lines(1, 2)
    assert not (tmp_path / "b.log").exists()
    assert not taking.offsets.of_files


def test_a_file_that_is_renamed_as_its_end_is_committed_is_not_read_again(taking: Reader, tmp_path: Path) -> None:
    assert taking.poll()
    [task] = taking.tasks
    end = task.poll()
    assert isinstance(end, SourceBatch)
    (tmp_path / "a.log").rename(tmp_path / "b.log")
    taking.offsets.commit(task, end)
    taking.restart()
    assert taking.read_all() == lines(1, 2)
    assert not (tmp_path / "b.log").exists()


def test_a_file_whose_directory_is_away_as_its_end_is_committed_is_not_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.log").write_text(text(1, 2))
    reader = Reader(folder / "*.log", files_after_end="delete")
    assert reader.poll()
    [task] = reader.tasks
    end = task.poll()
    assert isinstance(end, SourceBatch)
    folder.rename(tmp_path / "away")
    reader.offsets.commit(task, end)
    (tmp_path / "away").rename(folder)
    assert reader.read_all() == lines(1, 2)
    assert not (folder / "a.log").exists()
    assert not reader.offsets.of_files


@pytest.mark.parametrize("after_end", ["delete", "move"])
def test_a_file_whose_directory_leaves_as_it_is_taken_away_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_end: str
) -> None:
    folder, kept = tmp_path / "in", tmp_path / "kept"
    folder.mkdir()
    kept.mkdir()
    (folder / "a.log").write_text(text(1, 2))
    more = {"files_move_to": str(kept)} if after_end == "move" else {}
    reader = Reader(folder / "*.log", files_after_end=after_end, **more)
    assert reader.poll()
    call = "replace" if after_end == "move" else "unlink"
    real = getattr(os, call)

    def late(path: str, *more: object) -> None:
        folder.rename(tmp_path / "away")
        real(path, *more)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, late)
        assert reader.poll()
    (tmp_path / "away").rename(folder)
    assert reader.read_all() == lines(1, 2)
    assert not (folder / "a.log").exists()
