"""Files that were read to their end are removed once that is committed, and never before."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost import DataError, SourceBatch
from fencepost.api.source import SourceTask
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.discovery.ended import AfterEnd, take_away
from tests.unit.connectors.files.altering import alter
from tests.unit.connectors.files.test_file_source import config, errors_of, tasks
from tests.unit.connectors.files.test_odd_files import stale_at
from tests.unit.connectors.support import ConnectorContext, read


class Committed:
    """The committed offsets of files, as a worker stores them."""

    def __init__(self) -> None:
        self.of_files: dict[str, dict[str, Any]] = {}

    def offsets(self, partitions: Any) -> list[dict[str, Any] | None]:
        return [self.of_files.get(partition["filename"]) for partition in partitions]

    def items(self) -> list[tuple[dict[str, str], dict[str, Any]]]:
        return [({"filename": path}, offset) for path, offset in self.of_files.items()]

    def commit(self, task: SourceTask | None, batch: SourceBatch) -> None:
        """Commit a batch, and inform the task unless it was killed just before."""
        for partition, offset in batch.offsets:
            if offset is None:
                self.of_files.pop(partition["filename"], None)
            else:
                self.of_files[partition["filename"]] = dict(offset)
        if task is not None:
            task.commit()


def polled(task: SourceTask) -> SourceBatch:
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    return batch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.txt"


@pytest.fixture
def offsets() -> Any:
    return Committed()


def properties(path: Path, **more: str) -> dict[str, str]:
    return config(path, format="text", files_after_end="delete", **more)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_is_deleted_after_the_commit_of_its_end(path: Path, offsets: Committed, *, compressed: bool) -> None:
    path.write_bytes(gzip.compress(b"1\n2\n") if compressed else b"1\n2\n")
    [task] = tasks(properties(path), offsets=offsets)
    batch = polled(task)
    assert read(batch) == ["1", "2"]
    offsets.commit(task, batch)
    assert path.exists()
    end = polled(task)
    assert list(end.splits) == []
    assert task.poll() is None
    assert path.exists()
    assert not task.at_end()
    offsets.commit(task, end)
    assert not path.exists()
    assert not task.at_end()
    offsets.commit(task, polled(task))
    assert offsets.of_files == {}
    assert task.poll() is None
    assert task.at_end()


def test_no_file_is_taken_away_by_a_task_that_stops(path: Path, offsets: Committed) -> None:
    """A task that stops would not poll again, which is when the offset is removed."""
    path.write_text("1\n")
    [task] = tasks(properties(path), offsets=offsets)
    offsets.commit(task, polled(task))
    task.stop()
    assert task.poll() is None
    [task] = tasks(properties(path), offsets=offsets)
    for _ in range(2):
        offsets.commit(task, polled(task))
    assert not path.exists()
    assert offsets.of_files == {}


def test_a_file_is_moved_under_a_name_that_is_free(path: Path, offsets: Committed, tmp_path: Path) -> None:
    folder = tmp_path / "done é"
    folder.mkdir()
    (folder / path.name).write_text("another")
    path.write_text("1\n")
    moving = config(path, format="text", files_after_end="move", files_move_to=str(folder))
    [task] = tasks(moving, offsets=offsets)
    for _ in range(2):
        offsets.commit(task, polled(task))
    assert not path.exists()
    assert {file.name: file.read_text() for file in folder.iterdir()} == {"data.txt": "another", "data.txt.1": "1\n"}


def test_no_file_takes_the_place_of_another_that_is_moved_at_the_same_time(tmp_path: Path) -> None:
    folder = tmp_path / "done"
    folder.mkdir()
    paths = [tmp_path / str(number) / "part.csv" for number in range(400)]
    for path in paths:
        path.parent.mkdir()
        path.write_text(str(path))
    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(lambda path: take_away(str(path), AfterEnd.MOVE, str(folder)), paths):
            pass
    assert {file.read_text() for file in folder.iterdir()} == set(map(str, paths))
    assert len(list(folder.iterdir())) == len(paths)


@pytest.mark.parametrize("after_end", [AfterEnd.DELETE, AfterEnd.MOVE])
def test_a_file_that_another_program_took_away_is_not_missed(path: Path, tmp_path: Path, after_end: AfterEnd) -> None:
    folder = tmp_path / "done"
    folder.mkdir()
    take_away(str(path), after_end, str(folder))
    assert list(folder.iterdir()) == []


def test_a_longer_file_in_place_of_one_that_another_program_took_away_is_new(
    path: Path, offsets: Committed, tmp_path: Path
) -> None:
    path.write_text("1\n")
    [task] = tasks(properties(path), offsets=offsets)
    offsets.commit(task, polled(task))
    end = polled(task)
    # The moved file keeps its inode, so the new file gets another one.
    path.rename(tmp_path / "elsewhere")
    offsets.commit(task, end)
    path.write_text("1\n2\n")
    batch = polled(task)
    assert read(batch) == ["1", "2"]
    offsets.commit(task, batch)
    offsets.commit(task, polled(task))
    assert not path.exists()


@pytest.mark.parametrize("call", ["open", "unlink"])
def test_a_file_that_is_stale_at_the_commit_of_its_end_is_taken_away_later(
    path: Path, offsets: Committed, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path.write_text("1\n")
    [task] = tasks(properties(path), offsets=offsets)
    offsets.commit(task, polled(task))
    end = polled(task)
    with monkeypatch.context() as patched:
        failures = stale_at(patched, call, path, times=1)
        offsets.commit(task, end)
    assert failures
    assert path.exists()
    for _ in range(2):
        assert not task.at_end()
        offsets.commit(task, polled(task))
    assert not path.exists()
    assert offsets.of_files == {}


@pytest.fixture
def elsewhere(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that seems to be on a different file system from the file's."""
    replace = os.replace

    def within_a_directory(source: Any, target: Any) -> None:
        if Path(source).parent != Path(target).parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        replace(source, target)

    monkeypatch.setattr(os, "replace", within_a_directory)
    path.write_text("1\n")
    folder = tmp_path / "done"
    folder.mkdir()
    return folder


def after_the_copy(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    copy = shutil.copy2

    def then(*given: Any) -> None:
        copy(*given)
        action()

    monkeypatch.setattr(shutil, "copy2", then)


def test_a_file_is_copied_to_another_file_system(path: Path, elsewhere: Path) -> None:
    take_away(str(path), AfterEnd.MOVE, str(elsewhere))
    assert not path.exists()
    assert {file.name: file.read_text() for file in elsewhere.iterdir()} == {path.name: "1\n"}


def test_a_copy_is_on_the_disk_with_its_name_before_its_file_is_deleted(
    path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, synced = os.fsync, list[tuple[int, bool, list[str]]]()

    def noted(opened: int) -> None:
        sync(opened)
        synced.append((os.fstat(opened).st_ino, path.exists(), [file.name for file in elsewhere.glob("[!.]*")]))

    monkeypatch.setattr(os, "fsync", noted)
    take_away(str(path), AfterEnd.MOVE, str(elsewhere))
    copy = elsewhere / path.name
    assert synced == [(copy.stat().st_ino, True, []), (elsewhere.stat().st_ino, True, [path.name])]


def test_a_new_file_that_comes_while_the_former_one_is_copied_stays(
    path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = path.with_name("new")
    new.write_text("2\n")
    after_the_copy(monkeypatch, lambda: new.rename(path))
    take_away(str(path), AfterEnd.MOVE, str(elsewhere))
    assert path.read_text() == "2\n"
    assert {file.name: file.read_text() for file in elsewhere.iterdir()} == {path.name: "1\n"}


def test_a_file_that_grows_while_it_is_copied_is_kept_and_reported(
    path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grow() -> None:
        with path.open("a") as file:
            file.write("2\n")

    after_the_copy(monkeypatch, grow)
    with pytest.raises(DataError, match="was written to after it was read to its end"):
        take_away(str(path), AfterEnd.MOVE, str(elsewhere))
    assert path.read_text() == "1\n2\n"
    assert list(elsewhere.iterdir()) == []


def test_a_file_is_not_in_its_directory_before_it_is_whole(
    path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[Path]] = []
    after_the_copy(monkeypatch, lambda: found.append(list(elsewhere.glob("[!.]*"))))
    take_away(str(path), AfterEnd.MOVE, str(elsewhere))
    assert found == [[]]


def test_a_copy_that_a_crash_left_is_made_anew(path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as crashing:
        after_the_copy(crashing, crash)
        with pytest.raises(KeyboardInterrupt):
            take_away(str(path), AfterEnd.MOVE, str(elsewhere))
    take_away(str(path), AfterEnd.MOVE, str(elsewhere))
    assert {file.name: file.read_text() for file in elsewhere.iterdir()} == {path.name: "1\n"}


def test_a_file_with_the_longest_name_is_copied_to_another_file_system(path: Path, elsewhere: Path) -> None:
    longest = path.rename(path.with_name("é" * 127))
    take_away(str(longest), AfterEnd.MOVE, str(elsewhere))
    assert [file.name for file in elsewhere.iterdir()] == [longest.name]


def test_files_of_one_number_on_two_file_systems_are_copied_apart(
    path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = path.parent / "other" / path.name
    other.parent.mkdir()
    other.write_text("2\n")
    stat, copies = os.stat, set[Path]()

    def of_one_number(file: Any, **options: Any) -> Any:
        found = stat(file, **options)
        if file not in {str(path), str(other)}:
            return found
        return SimpleNamespace(st_ino=7, st_dev=len(file), st_mtime_ns=found.st_mtime_ns, st_size=found.st_size)

    def copied(source: str, copy: Path) -> None:
        copies.add(copy)
        copy.write_bytes(Path(source).read_bytes())

    monkeypatch.setattr(shutil, "copy2", copied)
    monkeypatch.setattr(os, "stat", of_one_number)
    for file in (path, other):
        take_away(str(file), AfterEnd.MOVE, str(elsewhere))
    assert len(copies) == 2


def test_a_file_whose_end_was_committed_before_a_crash_is_taken_away_later(path: Path, offsets: Committed) -> None:
    path.write_text("1\n")
    [task] = tasks(properties(path), offsets=offsets)
    offsets.commit(task, polled(task))
    offsets.commit(None, polled(task))
    assert path.exists()
    [task] = tasks(properties(path), offsets=offsets)
    # With transaction.boundary=interval, commit() is called only for batches that were returned before.
    for _ in range(2):
        assert not task.at_end()
        offsets.commit(task, polled(task))
    assert not path.exists()
    assert offsets.of_files == {}
    assert task.poll() is None
    assert task.at_end()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_new_file_of_the_same_name_is_read_from_its_start(path: Path, offsets: Committed, *, restarted: bool) -> None:
    path.write_text("old 1\nold 2\n")
    [task] = tasks(properties(path), offsets=offsets)
    for _ in range(2):
        offsets.commit(task, polled(task))
    path.write_text("new 1\nnew 2\nnew 3\n")
    if restarted:
        [task] = tasks(properties(path), offsets=offsets)
    else:
        # The old file's offset is removed.
        offsets.commit(task, polled(task))
    batch = polled(task)
    assert read(batch) == ["new 1", "new 2", "new 3"]
    offsets.commit(task, batch)
    assert offsets.of_files[str(path)]["position"] == 18
    offsets.commit(task, polled(task))
    assert not path.exists()


@pytest.mark.parametrize("compressed", [False, True])
def test_the_rest_of_a_file_that_grew_is_read_as_the_error_says(
    path: Path, offsets: Committed, *, compressed: bool
) -> None:
    def written(text: str) -> bytes:
        return gzip.compress(text.encode()) if compressed else text.encode()

    path.write_bytes(written("1\n2"))
    [task] = tasks(properties(path), offsets=offsets)
    # In a run to the end, the last row needs no line end.
    assert not task.at_end()
    offsets.commit(task, polled(task))
    end = polled(task)
    with path.open("ab") as file:
        file.write(written("\n3\n"))
    offsets.commit(task, end)
    with pytest.raises(DataError, match=r"has grown .* without the field ended"):
        task.poll()
    given = {name: value for name, value in offsets.of_files[str(path)].items() if name != "ended"}
    assert alter(properties(path), {str(path): given})
    offsets.of_files[str(path)] = given
    [task] = tasks(properties(path), offsets=offsets)
    assert read(polled(task))[-1] == "3"


def test_a_file_that_grows_before_it_is_deleted_is_kept_and_reported(path: Path, offsets: Committed) -> None:
    path.write_text("1\n")
    [task] = tasks(properties(path), offsets=offsets)
    offsets.commit(task, polled(task))
    end = polled(task)
    with path.open("a") as file:
        file.write("2\n")
    offsets.commit(task, end)
    # Errors of a task's commit() are only logged by the worker.
    with pytest.raises(DataError, match="has grown after it was read to its end"):
        task.poll()
    assert path.read_text() == "1\n2\n"
    with pytest.raises(DataError, match="has grown after it was read to its end"):
        tasks(properties(path), offsets=offsets)


def test_a_file_that_has_not_settled_or_lacks_a_line_end_is_not_at_its_end(path: Path, offsets: Committed) -> None:
    path.write_text("1\n2")
    [task] = tasks(properties(path), offsets=offsets)
    offsets.commit(task, polled(task))
    assert task.poll() is None
    with path.open("a") as file:
        file.write("\n")
    [task] = tasks(properties(path, files_settle_ms="3600000"), offsets=offsets)
    offsets.commit(task, polled(task))
    assert task.poll() is None
    os.utime(path, (1, 1))
    # The first batch has the file's new time, the second one its end.
    for _ in range(2):
        offsets.commit(task, polled(task))
    assert not path.exists()


@pytest.mark.parametrize("mark", ["x", "[1]", "{}", '{"inode": 1, "modified": 1, "size": "9", "head": ""}', 7])
def test_an_invalid_end_mark_in_an_offset_is_refused(path: Path, mark: object) -> None:
    offset = {"position": 2, "ended": mark}
    with pytest.raises(DataError, match="The field ended of the offset"):
        FileSourceConnector().alter_offsets(properties(path), [({"filename": str(path)}, offset)])


@pytest.mark.parametrize("name", [["x"], {"x": 1}], ids=str)
def test_an_offset_whose_name_is_no_text_can_be_removed(path: Path, name: Any) -> None:
    connector = FileSourceConnector()
    connector.context = ConnectorContext()
    assert connector.alter_offsets(properties(path), [({"filename": name}, None)])


@pytest.mark.parametrize("pattern", ["*", "**", "**/*.csv", "*/*.csv"])
def test_files_are_not_moved_to_where_they_are_read_again(tmp_path: Path, pattern: str) -> None:
    folder = tmp_path / "in" / ("" if pattern == "*" else "done")
    folder.mkdir(parents=True)
    errors = errors_of(
        format="text", files=str(tmp_path / "in" / pattern), files_after_end="move", files_move_to=str(folder)
    )
    assert list(errors) == ["files.move.to"]
    assert "they would be read again, without end" in errors["files.move.to"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"files_after_end": "move"}, "with a directory that exists"),
        ({"files_after_end": "move", "files_move_to": "/does/not/exist"}, "with a directory that exists"),
        ({"files_move_to": "/"}, "has no effect without files.after.end=move"),
    ],
)
def test_files_are_moved_to_a_directory_only(given: dict[str, str], message: str) -> None:
    errors = errors_of(format="text", **given)
    assert list(errors) == ["files.move.to"]
    assert message in errors["files.move.to"]


def test_a_link_whose_target_is_gone_after_its_end_is_not_missed(
    tmp_path: Path, path: Path, offsets: Committed
) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"1\n")
    path.symlink_to(target)
    [task] = tasks(properties(path), offsets=offsets)
    batch = polled(task)
    assert read(batch) == ["1"]
    target.unlink()
    offsets.commit(task, batch)
    assert task.poll() is None
    assert task.poll() is None
