"""Files that are renamed, rotated, replaced, copied and linked: which file it is tells where it goes on."""

from __future__ import annotations

import gzip
import json
import logging
import os
import random
import shutil
import threading
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost import DataError, SourceBatch
from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.source import SourceTask
from fencepost.connectors import file_discovery, file_task, growing_file, seen_inodes
from fencepost.connectors.file_discovery import Discovery, FileWatch
from fencepost.connectors.file_identity import inode_at
from fencepost.connectors.file_source import FileSourceConnector
from fencepost.connectors.file_task import FileSourceTask
from tests.unit.connectors.support import ConnectorContext, read, start
from tests.unit.connectors.test_ended_files import Committed
from tests.unit.connectors.test_file_source import config

WAIT_SECONDS = 60


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_file, "WAIT_SECONDS", 0.02)
    monkeypatch.setattr(growing_file, "LOOK_SECONDS", 0.01)


class Reader:
    """A connector and its tasks, with the committed offsets and the rows that were committed."""

    def __init__(self, files: object, **properties: str) -> None:
        self.properties = config(files, **{"format": "text", "files_poll_interval_ms": "3600000", **properties})
        self.offsets = Committed()
        self.rows: list[Any] = []
        self.tasks: list[SourceTask] = []
        self.restart()

    def restart(self, most: int = 1) -> list[dict[str, str]]:
        """Start the connector again, and all tasks with what it gives them."""
        connector, context = FileSourceConnector(), ConnectorContext(self.properties)
        context.offset_reader = self.offsets  # type: ignore[assignment]
        connector.context = context
        connector.start(self.properties)
        configs = connector.task_configs(most)
        connector.stop()
        self.tasks = [start(FileSourceTask(), given, self.offsets) for given in configs]  # type: ignore[arg-type]
        return configs

    def poll(self, *, commits: bool = True) -> bool:
        """Poll all tasks once. Return whether there was something."""
        found = [(task, batch) for task in self.tasks if isinstance(batch := task.poll(), SourceBatch)]
        for task, batch in found:
            rows = read(batch) if batch.splits else []
            if commits:
                self.rows += rows
                self.offsets.commit(task, batch)
        return bool(found)

    def read_all(self) -> list[Any]:
        while self.poll():
            pass
        return self.rows


def text(*numbers: int) -> str:
    return "".join(f"line {number}\n" for number in numbers)


def lines(*numbers: int) -> list[str]:
    return [f"line {number}" for number in numbers]


def as_text(path: Path) -> Mapping[str, str]:
    path.write_text(text(1, 2))
    return {}


def as_gzip(path: Path) -> Mapping[str, str]:
    path.write_bytes(gzip.compress(text(1, 2).encode()))
    return {}


def as_latin_1(path: Path) -> Mapping[str, str]:
    path.write_text(text(1, 2), "latin-1")
    return {"encoding": "latin-1"}


def as_parquet(path: Path) -> Mapping[str, str]:
    pq.write_table(pa.table({"line": ["line 1", "line 2"]}), path)
    return {"format": "parquet"}


forms = pytest.mark.parametrize("write", [as_text, as_gzip, as_latin_1, as_parquet])


@forms
def test_a_file_that_is_renamed_while_nothing_runs_is_not_read_again(write: Any, tmp_path: Path) -> None:
    path = tmp_path / "a"
    reader = Reader(tmp_path / "*", **write(path))
    assert len(reader.read_all()) == 2
    path.rename(tmp_path / "b")
    reader.restart()
    assert len(reader.read_all()) == 2
    # Its offset is under the new name now, whatever becomes of the former one.
    del reader.offsets.of_files[str(path)]
    reader.restart()
    assert len(reader.read_all()) == 2


def test_a_renamed_file_that_has_grown_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(text(1, 2))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    renamed = path.rename(tmp_path / "b")
    renamed.write_text(text(1, 2, 3))
    reader.restart()
    assert reader.read_all() == lines(1, 2, 3)


def rotate(folder: Path, content: str) -> None:
    """As logrotate does: log -> log.1 -> log.2, and a new log."""
    for name, new in (("log.1", "log.2"), ("log", "log.1")):
        if (folder / name).exists():
            (folder / name).rename(folder / new)
    (folder / "log").write_text(content)


@pytest.mark.parametrize("most", [1, 3])
def test_rotated_logs_are_read_once_and_the_new_one_from_its_start(most: int, tmp_path: Path) -> None:
    reader = Reader(tmp_path / "log*")
    expected: list[str] = []
    for number in range(0, 50, 10):
        rotate(tmp_path, text(*range(number, number + 4)))
        reader.restart(most)
        reader.read_all()
        with (tmp_path / "log").open("a") as log:
            log.write(text(number + 5, number + 6))
        expected += lines(*range(number, number + 4), number + 5, number + 6)
    reader.restart(most)
    assert sorted(reader.read_all()) == sorted(expected)


def test_a_crash_right_after_the_new_name_is_committed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    # As long as what was read of the former one, with other lines.
    rotate(tmp_path, text(3, 4, 5))
    for committed in (False, True, False, True):
        reader.restart()
        reader.poll(commits=committed)
    reader.restart()
    assert sorted(reader.read_all()) == lines(1, 2, 3, 4, 5)


def test_a_file_that_is_renamed_back_goes_on_at_its_furthest_position(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(text(1))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    path.rename(tmp_path / "b")
    with (tmp_path / "b").open("a") as file:
        file.write(text(2))
    reader.restart()
    reader.read_all()
    (tmp_path / "b").rename(path)
    reader.restart()
    assert reader.read_all() == lines(1, 2)


def test_an_offset_of_another_file_under_a_former_name_is_not_taken(tmp_path: Path) -> None:
    rotate(tmp_path, text(1))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    rotate(tmp_path, text(2, 3))
    [given] = reader.restart()
    reader.read_all()
    # The same configuration again: what was the former name's offset is that of the new log by now.
    reader.tasks = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    assert sorted(reader.read_all()) == lines(1, 2, 3)


def test_the_names_of_one_file_are_of_one_task_wherever_they_were(tmp_path: Path) -> None:
    for name in "abcdefgh":
        (tmp_path / name).write_text(text(ord(name)))
    reader = Reader(tmp_path / "*")
    reader.restart(4)
    reader.read_all()
    (tmp_path / "c").rename(tmp_path / "z")
    (tmp_path / "c").write_text(text(1))
    configs = reader.restart(4)
    [with_both] = [given for given in configs if "task.renamed" in given]
    assert {str(tmp_path / "c"), str(tmp_path / "z")} <= set(json.loads(with_both["task.files"]))
    assert json.loads(with_both["task.renamed"]) == {str(tmp_path / "z"): [str(tmp_path / "c")]}
    assert sorted(reader.read_all()) == sorted(lines(1, *range(ord("a"), ord("i"))))


@pytest.mark.parametrize("link", [shutil.copy, os.link, os.symlink])
def test_a_copy_of_a_file_or_a_link_to_it_is_another_one(link: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    link(tmp_path / "a", tmp_path / "b")
    reader.restart()
    assert reader.read_all() == lines(1, 1)


def test_a_new_file_with_the_inode_and_the_bytes_of_a_deleted_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(text(1))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    new = path.rename(tmp_path / "b")
    os.utime(new, ns=(0, new.stat().st_mtime_ns + 1))
    reader.restart()
    assert reader.read_all() == lines(1, 1)


@forms
def test_a_file_that_was_copied_back_goes_on(write: Any, tmp_path: Path) -> None:
    path = tmp_path / "a"
    reader = Reader(path, **write(path))
    reader.read_all()
    shutil.copy(path, tmp_path / "copy")
    path.unlink()
    shutil.copy(tmp_path / "copy", path)
    reader.restart()
    assert len(reader.read_all()) == 2


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("content", [text(8, 9), text(8, 9, 10)], ids=["same", "longer"])
def test_a_file_that_is_replaced_by_one_as_long_is_told(
    restarted: bool,
    compress: Any,
    content: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / "a"
    path.write_bytes(compress(text(1, 2).encode()))
    reader = Reader(path)
    reader.read_all()
    path.write_bytes(compress(content.encode()))
    os.utime(path, ns=(0, 0))
    if restarted:
        reader.restart()
    with pytest.raises(DataError, match="was replaced by another one after it was read up to byte"):
        reader.poll()


def test_an_edited_end_of_a_file_is_no_replacement(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(text(1) + "bad")
    reader = Reader(path)
    reader.read_all()
    (tmp_path / "edited").write_text(text(1, 2))
    (tmp_path / "edited").replace(path)
    assert reader.read_all() == lines(1, 2)


def test_another_file_in_place_of_a_renamed_one_is_waited_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    rotate(tmp_path, text(3))
    # The task does not know of the new name yet.
    assert not reader.poll()
    assert not reader.poll()
    assert caplog.text.count("Waiting for the next look for files to tell which one") == 1
    reader.restart()
    assert reader.read_all() == lines(1, 2, 3)


def test_another_file_fails_the_task_after_some_looks_for_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_task, "LEAST_WAIT_SECONDS", 0.0)
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log", files_poll_interval_ms="1")
    reader.read_all()
    rotate(tmp_path, text(3))
    with pytest.raises(DataError, match="was truncated or replaced"):
        any(reader.poll() for _ in range(1000))


def test_another_file_fails_the_task_at_once_that_is_to_end(tmp_path: Path) -> None:
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log")
    reader.read_all()
    reader.tasks[0].at_end()
    rotate(tmp_path, text(3))
    with pytest.raises(DataError, match="was truncated or replaced"):
        reader.poll()


def test_a_task_whose_machine_numbers_files_otherwise_reads_them_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log*", files_poll_interval_ms="1")
    [given] = reader.restart()
    inodes = {path: inode + 1_000_000 for path, inode in json.loads(given["task.inodes"]).items()}
    reader.tasks = [start(FileSourceTask(), {**given, "task.inodes": json.dumps(inodes)}, reader.offsets)]  # type: ignore[arg-type]
    assert not reader.poll()
    monkeypatch.setattr(seen_inodes, "NUMBERING_WAIT_SECONDS", 0.0)
    assert any(reader.poll() for _ in range(1000))
    assert reader.rows == lines(1, 2)
    assert caplog.text.count("the file system numbers files for each machine") == 1


def test_a_look_in_the_midst_of_a_rotation_is_left_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rotate(tmp_path, text(1))
    watch = FileWatch(
        Discovery((str(tmp_path / "log*"),), ANYWHERE), interval_s=3600, on_change=pytest.fail, on_error=pytest.fail
    )
    watch.start()
    (tmp_path / "log.1").write_text(text(2))

    def looked_at(path: str) -> int | None:
        inode = inode_at(path)
        if path == str(tmp_path / "log") and inode is not None:
            (tmp_path / "log").rename(tmp_path / "log.1")
        return inode

    with monkeypatch.context() as patched:
        patched.setattr(file_discovery, "inode_at", looked_at)
        assert watch._look() == ([], [])
    assert watch._look() == ([str(tmp_path / "log.1")], [])
    assert watch.formers == {str(tmp_path / "log.1"): [str(tmp_path / "log")]}
    watch.stop()


def test_the_lag_is_that_of_files_that_are_what_they_were(tmp_path: Path) -> None:
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    [given] = reader.restart()
    rotate(tmp_path, text(3))
    [reader.tasks[0]] = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    assert reader.tasks[0].lag() == 0


def test_a_watch_tells_that_known_names_have_other_known_files(tmp_path: Path) -> None:
    rotate(tmp_path, text(1))
    rotate(tmp_path, text(2))
    told = threading.Event()
    watch = FileWatch(
        Discovery((str(tmp_path / "log*"),), ANYWHERE), interval_s=0.01, on_change=told.set, on_error=pytest.fail
    )
    watch.start()
    (tmp_path / "log.1").unlink()
    (tmp_path / "log").rename(tmp_path / "log.1")
    (tmp_path / "log").write_text(text(3))
    assert told.wait(WAIT_SECONDS)
    watch.stop()


def test_a_batch_of_a_name_that_gets_another_file_before_it_is_read_fails(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text(1, 2))
    reader = Reader(tmp_path / "log*")
    batch = reader.tasks[0].poll()
    assert isinstance(batch, SourceBatch)
    rotate(tmp_path, text(3, 4, 5))
    with pytest.raises(DataError, match="got another file before bytes 0 to 14 of the former one were read"):
        read(batch)


def test_a_split_is_read_where_its_file_has_another_inode(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text(1, 2))
    batch = Reader(tmp_path / "log*").tasks[0].poll()
    assert isinstance(batch, SourceBatch)
    # As on another machine.
    shutil.copy(path, tmp_path / "copy")
    (tmp_path / "copy").replace(path)
    assert read(batch) == lines(1, 2)


def test_each_rotation_of_the_same_names_changes_the_configuration(tmp_path: Path) -> None:
    seen = []
    rotate(tmp_path, text(0))
    reader = Reader(tmp_path / "log*")
    for number in range(1, 6):
        rotate(tmp_path, text(number))
        (tmp_path / "log.2").unlink(missing_ok=True)
        seen += reader.restart()
        reader.read_all()
    assert all(given != following for given, following in pairwise(seen))
    assert sorted(reader.rows) == lines(0, 1, 2, 3, 4, 5)


def test_a_name_with_another_file_than_the_connector_saw_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    (tmp_path / "b").write_text(text(2))
    reader.restart()
    # Its former name is not known to the task, which would take it for a new file.
    (tmp_path / "a").replace(tmp_path / "b")
    assert reader.read_all() == lines(1)
    reader.restart()
    assert reader.read_all() == lines(1)


def test_a_file_that_comes_back_to_a_name_after_the_start_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_task, "LEAST_WAIT_SECONDS", 0.0)
    (tmp_path / "a").write_text(text(1))
    reader = Reader(tmp_path / "*", files_poll_interval_ms="1")
    reader.read_all()
    (tmp_path / "a").rename(tmp_path / "b")
    [given] = reader.restart()
    (tmp_path / "b").rename(tmp_path / "a")
    reader.tasks = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    assert not reader.poll()
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(DataError, match="had another name when the task started"):
        any(reader.poll() for _ in range(1000))
    assert reader.rows == lines(1)


def test_a_file_that_begins_as_the_former_one_of_its_name_is_not_taken_for_it(tmp_path: Path) -> None:
    rotate(tmp_path, text(1))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    rotate(tmp_path, text(1, 2))
    assert reader.read_all() == lines(1)
    reader.restart()
    assert sorted(reader.read_all()) == lines(1, 1, 2)


def test_a_file_that_is_renamed_before_its_first_commit_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1))
    connector, context = FileSourceConnector(), ConnectorContext()
    told = threading.Event()
    context.request_task_reconfiguration = told.set  # type: ignore[method-assign]
    reader = Reader(tmp_path / "*", files_poll_interval_ms="10")
    connector.context = context
    connector.start(reader.properties)
    [task] = reader.tasks
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    (tmp_path / "a").rename(tmp_path / "b")
    assert told.wait(WAIT_SECONDS)
    [given] = connector.task_configs(1)
    connector.stop()
    # The former task commits as it ends.
    reader.offsets.commit(task, batch)
    reader.tasks = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    assert reader.read_all() == []


def test_a_new_file_with_the_inode_of_a_former_name_is_read_from_its_start(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1, 2))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "b").write_text(text(3, 4, 5))
    # The watch saw the inode under the former name.
    given = {**reader.properties, "task.files": json.dumps([str(tmp_path / "b")])}
    given["task.renamed"] = json.dumps({str(tmp_path / "b"): [str(tmp_path / "a")]})
    reader.tasks = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    assert reader.read_all() == lines(1, 2, 3, 4, 5)


@pytest.mark.parametrize("pattern", ["log", "log*"])
def test_an_unread_file_in_the_place_of_a_read_one_is_not_taken_away(pattern: str, tmp_path: Path) -> None:
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / pattern, files_after_end="delete")
    assert reader.poll()
    rotate(tmp_path, text(3, 4))
    assert not reader.poll()
    assert (tmp_path / "log").read_text() == text(3, 4)


def test_files_that_are_rotated_again_before_the_task_starts_are_read_once(tmp_path: Path) -> None:
    rotate(tmp_path, text(0))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    for number in (1, 2):
        rotate(tmp_path, text(number))
        [given] = reader.restart()
        reader.read_all()
    # The last one of the names is not known to the task yet.
    (tmp_path / "log.2").rename(tmp_path / "log.3")
    rotate(tmp_path, text(3))
    reader.tasks = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    reader.read_all()
    reader.restart()
    assert sorted(reader.read_all()) == lines(0, 1, 2, 3)


@pytest.mark.parametrize(
    "identity", ["", "{}", "[]", '{"inode": "1", "modified": 1, "end": 1, "head": "", "tail": ""}']
)
def test_an_offset_with_an_identity_that_is_none_is_refused(identity: str, tmp_path: Path) -> None:
    connector = FileSourceConnector()
    partition, offset = {"filename": str(tmp_path / "a")}, {"position": 1, "identity": identity}
    with pytest.raises(DataError, match=r"a has the identity .*, which is not one: remove the field"):
        connector.alter_offsets(config(tmp_path / "a", format="text"), [(partition, offset)])


class Writer:
    """Writes, renames and rotates files, and knows all lines."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.chance = chance
        self.count = 0

    def act(self) -> None:
        files = sorted(self.folder.iterdir())
        action = self.chance.choice([self.append, self.append, self.rename, self.exchange])
        if files:
            action(self.chance.choice(files))
        else:
            self.append(self._new_name())

    def append(self, path: Path) -> None:
        if self.chance.random() < 0.3:
            path = self._new_name()
        with path.open("a") as file:
            for _ in range(self.chance.randrange(1, 4)):
                # Files begin in the same way.
                file.write(f"{'x' * self.chance.choice([1, 600])} {self.count}\n")
                self.count += 1

    def rename(self, path: Path) -> None:
        path.rename(self._new_name())

    def exchange(self, path: Path) -> None:
        """The name has another file at once."""
        path.rename(self._new_name())
        self.append(path)

    def _new_name(self) -> Path:
        free = [path for number in range(40) if not (path := self.folder / f"log {number}").exists()]
        return self.chance.choice(free)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_renamed_each_line_is_read_once(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    writer = Writer(tmp_path, chance)
    writer.append(tmp_path / "log 0")
    reader = Reader(tmp_path / "*", batch_bytes=chance.choice(["700", "100000"]))
    for _ in range(40):
        chance.choice([writer.act, writer.act, reader.poll, lambda: reader.poll(commits=False) and reader.restart(2)])()
        if chance.random() < 0.3:
            reader.restart(chance.randrange(1, 4))
    reader.restart()
    reader.read_all()
    assert sorted(int(row.split()[1]) for row in reader.rows) == list(range(writer.count))
