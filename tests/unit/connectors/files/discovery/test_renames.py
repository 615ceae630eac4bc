"""Files that are renamed, replaced, copied and linked are read on by their identity."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from fencepost import DataError, SourceBatch
from fencepost.connectors.files import task as file_task
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.task import FileSourceTask
from tests.unit.connectors.files.renaming import Reader, forms, lines, text
from tests.unit.connectors.files.test_file_source import config
from tests.unit.connectors.support import ConnectorContext, read, start

pytestmark = pytest.mark.usefixtures("short_waits")

WAIT_SECONDS = 60


@forms
def test_a_file_that_is_renamed_while_nothing_runs_is_not_read_again(write: Any, tmp_path: Path) -> None:
    path = tmp_path / "a"
    reader = Reader(tmp_path / "*", **write(path))
    assert len(reader.read_all()) == 2
    path.rename(tmp_path / "b")
    reader.restart()
    assert len(reader.read_all()) == 2
    assert list(reader.offsets.of_files) == [str(tmp_path / "b")]
    reader.restart()
    assert len(reader.read_all()) == 2


def test_a_renamed_file_that_has_grown_continues_at_its_position(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(text(1, 2))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    renamed = path.rename(tmp_path / "b")
    renamed.write_text(text(1, 2, 3))
    reader.restart()
    assert reader.read_all() == lines(1, 2, 3)


def test_a_file_that_is_renamed_back_continues_at_its_furthest_position(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(text(1))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    stale = reader.offsets.of_files[str(path)]
    path.rename(tmp_path / "b")
    with (tmp_path / "b").open("a") as file:
        file.write(text(2))
    reader.restart()
    reader.read_all()
    # Both names have an offset of the same file, as in a restored offsets topic or after altered offsets.
    reader.offsets.of_files[str(path)] = stale
    (tmp_path / "b").rename(path)
    reader.restart()
    assert reader.read_all() == lines(1, 2)


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
def test_a_file_that_was_copied_back_continues(write: Any, tmp_path: Path) -> None:
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
def test_a_file_that_is_replaced_by_one_as_long_is_reported(
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
    with pytest.raises(
        DataError, match="was replaced by another one: its offset belongs to the former file, up to byte"
    ):
        reader.poll()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_file_that_is_overwritten_while_it_is_read_is_reported(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(text(1, 2, 3))
    reader = Reader(path, batch_bytes="7", encoding=encoding)
    assert reader.poll()
    path.write_text(text(4, 5, 6))
    with pytest.raises(
        DataError, match="was replaced by another one: its offset belongs to the former file, up to byte"
    ):
        reader.poll()
    assert reader.rows == lines(1)


def test_an_edited_end_of_a_file_does_not_count_as_a_replacement(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(text(1) + "bad")
    reader = Reader(path)
    reader.read_all()
    (tmp_path / "edited").write_text(text(1, 2))
    (tmp_path / "edited").replace(path)
    assert reader.read_all() == lines(1, 2)


def test_a_split_is_read_where_its_file_has_another_inode(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text(1, 2))
    batch = Reader(tmp_path / "log*").tasks[0].poll()
    assert isinstance(batch, SourceBatch)
    # As on another machine.
    shutil.copy(path, tmp_path / "copy")
    (tmp_path / "copy").replace(path)
    assert read(batch) == lines(1, 2)


def test_a_name_with_another_file_than_the_connector_saw_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    (tmp_path / "b").write_text(text(2))
    reader.restart()
    # The task does not know the file's former name, and would take the file for a new one.
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
    # The former task commits when it stops.
    reader.offsets.commit(task, batch)
    reader.tasks = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    assert reader.read_all() == []


def test_a_new_file_with_the_inode_of_an_old_name_is_read_from_its_start(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text(1, 2))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "b").write_text(text(3, 4, 5))
    # The connector's scan saw the inode under the former name.
    given = {**reader.properties, "task.files": json.dumps([str(tmp_path / "b")])}
    given["task.renamed"] = json.dumps({str(tmp_path / "b"): [str(tmp_path / "a")]})
    reader.tasks = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    assert reader.read_all() == lines(1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "identity", ["", "{}", "[]", '{"inode": "1", "modified": 1, "end": 1, "head": "", "tail": ""}']
)
def test_an_offset_with_an_invalid_file_identity_is_refused(identity: str, tmp_path: Path) -> None:
    connector = FileSourceConnector()
    partition, offset = {"filename": str(tmp_path / "a")}, {"position": 1, "identity": identity}
    with pytest.raises(DataError, match=r"a has the identity .*, which is invalid: remove the field"):
        connector.alter_offsets(config(tmp_path / "a", format="text"), [(partition, offset)])
