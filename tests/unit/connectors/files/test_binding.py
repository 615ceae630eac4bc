"""An offset that a user sets is bound to the file at its path, before any row is read."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from fencepost import DataError
from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.connectors.files.content.identity import FileIdentity
from fencepost.connectors.files.discovery.ended import Mark
from fencepost.connectors.files.task import FileSourceTask
from tests.unit.connectors.files import altering
from tests.unit.connectors.files.discovery.test_ended import Committed
from tests.unit.connectors.files.renaming import Reader, as_parquet, forms, lines, rotate, text
from tests.unit.connectors.files.test_file_source import config
from tests.unit.connectors.support import start

pytestmark = pytest.mark.usefixtures("short_waits")

SECOND = {"position": len(text(1))}


def stored(path: Path, offset: dict[str, Any], allowed: AllowedPaths = ANYWHERE, **properties: str) -> dict[str, Any]:
    """What a worker stores for an offset that a user sets."""
    given = config(path, **{"format": "text", **properties})
    connector = altering.connector(given, allowed=allowed)
    pairs = [({"filename": str(path)}, offset)]
    assert connector.alter_offsets(given, pairs)
    [(partition, bound)] = connector.bind_offsets(given, pairs)
    assert partition == {"filename": str(path)}
    return dict(bound or {})


def second_row(write: Any) -> dict[str, Any]:
    return {"group": 0, "row": 1} if write is as_parquet else SECOND


@forms
def test_a_bound_offset_moves_with_its_file(write: Any, tmp_path: Path) -> None:
    properties = write(tmp_path / "log")
    offset = stored(tmp_path / "log", second_row(write), **properties)
    (tmp_path / "log").rename(tmp_path / "log.1")
    reader = Reader(tmp_path / "log*", **properties)
    reader.offsets.of_files[str(tmp_path / "log")] = offset
    reader.restart()
    rows = [row if isinstance(row, str) else row["line"] for row in reader.read_all()]
    assert rows == lines(2)
    assert list(reader.offsets.of_files) == [str(tmp_path / "log.1")]


@forms
def test_a_file_that_replaces_another_one_is_not_read_from_a_bound_offset(write: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    properties = write(path)
    offset = stored(path, second_row(write), **properties)
    write(tmp_path / "other")
    other = (tmp_path / "other").read_bytes()
    # One byte of the samples is another one.
    (tmp_path / "other").write_bytes(other[:4] + bytes([other[4] ^ 1]) + other[5:])
    (tmp_path / "other").replace(path)
    reader = Reader(path, **properties)
    reader.offsets.of_files[str(path)] = offset
    reader.restart()
    # The files are complete, so nobody waits for the first file's new name.
    assert not reader.tasks[0].at_end()
    with pytest.raises(DataError, match="was replaced by another one"):
        reader.poll()
    assert reader.rows == []


@forms
def test_a_bound_offset_is_resumed_in_its_own_file(write: Any, tmp_path: Path) -> None:
    properties = write(tmp_path / "rows")
    offset = stored(tmp_path / "rows", second_row(write), **properties)
    reader = Reader(tmp_path / "rows", **properties)
    reader.offsets.of_files[str(tmp_path / "rows")] = offset
    reader.restart()
    assert len(reader.read_all()) == 1


def test_a_file_may_grow_after_its_offset_was_bound(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(text(1))
    offset = stored(log, SECOND)
    with log.open("a") as file:
        file.write(text(2))
    rotate(tmp_path, text(3))
    reader = Reader(tmp_path / "log*")
    reader.offsets.of_files[str(log)] = offset
    reader.restart()
    assert sorted(reader.read_all()) == lines(2, 3)


def test_an_offset_keeps_the_identity_that_the_user_gave(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text(text(1, 2))
    committed = stored(path, SECOND)
    path.write_text(text(1, 2, 3))
    assert stored(path, committed) == committed
    path.unlink()
    assert stored(path, committed) == committed


def copied(path: Path) -> None:
    """Put a copy in the place of a file, as on another machine: the same bytes with another inode."""
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


@forms
def test_an_offset_of_a_copied_file_moves_with_the_copy(write: Any, tmp_path: Path) -> None:
    properties = write(tmp_path / "log")
    committed = stored(tmp_path / "log", second_row(write), **properties)
    copied(tmp_path / "log")
    offset = stored(tmp_path / "log", committed, **properties)
    assert offset != committed
    (tmp_path / "log").rename(tmp_path / "log.1")
    reader = Reader(tmp_path / "log*", **properties)
    reader.offsets.of_files[str(tmp_path / "log")] = offset
    reader.restart()
    rows = [row if isinstance(row, str) else row["line"] for row in reader.read_all()]
    assert rows == lines(2)


def test_an_offset_of_a_renamed_file_is_not_bound_to_a_copy_at_its_old_name(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(text(1, 2))
    committed = stored(log, SECOND)
    log.rename(tmp_path / "log.1")
    shutil.copy(tmp_path / "log.1", log)
    given = config(tmp_path / "log*", format="text")
    connector = altering.connector(given)
    assert connector.bind_offsets(given, [({"filename": str(log)}, committed)]) == [({"filename": str(log)}, committed)]


def ended(path: Path) -> dict[str, Any]:
    mark = Mark.of(str(path), ANYWHERE)
    assert mark is not None
    whole = stored(path, {"position": path.stat().st_size})
    return {**whole, "ended": mark.in_json()}


def test_the_end_mark_of_a_copied_file_becomes_the_mark_of_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text(text(1, 2))
    committed = ended(path)
    copied(path)
    offset = stored(path, committed)
    mark = Mark.in_offset(offset)
    assert mark is not None
    assert mark.is_at(str(path), ANYWHERE)
    assert json.loads(offset["identity"])["inode"] == path.stat().st_ino


def test_an_end_mark_with_a_position_before_the_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text(text(1, 2))
    committed = ended(path)
    with pytest.raises(DataError, match="leave the mark out to have it read"):
        stored(path, committed | SECOND)
    path.write_text(text(1)[:-1])
    assert stored(path, ended_within_a_row(path)) == ended_within_a_row(path)


def ended_within_a_row(path: Path) -> dict[str, Any]:
    """An offset at the end of a file whose last row has no line end, as FileSource commits it."""
    with path.open("rb", buffering=0) as file:
        identity = FileIdentity.of(file, path.stat().st_size, plain=True).in_json()
    mark = Mark.of(str(path), ANYWHERE)
    assert mark is not None
    return {"position": path.stat().st_size, "identity": identity, "ended": mark.in_json()}


def test_offsets_without_a_file_to_bind_to_are_stored_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    assert stored(path, SECOND) == SECOND
    path.write_text(text(1, 2))
    assert stored(path, {"position": 0}) == {"position": 0}, "any file may be read from its start"
    assert stored(path, SECOND, AllowedPaths.of([str(tmp_path / "elsewhere")])) == SECOND
    os.mkfifo(tmp_path / "pipe")
    assert stored(tmp_path / "pipe", SECOND) == SECOND


def test_the_identity_is_the_one_that_the_task_would_commit(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text(text(1, 2))
    reader = Reader(path)
    reader.read_all()
    [committed] = reader.offsets.of_files.values()
    assert stored(path, {"position": committed["position"]}) == committed


def test_a_decoded_file_is_bound_as_a_whole(tmp_path: Path) -> None:
    """The position is in its content. Another file may begin with the same bytes as far as the position."""
    path = tmp_path / "rows"
    path.write_text(text(1, 2), "utf-16")
    offset = stored(path, SECOND, encoding="utf-16")
    path.write_text(text(1, 9), "utf-16")
    reader = Reader(path, encoding="utf-16")
    reader.offsets.of_files[str(path)] = offset
    reader.restart()
    with pytest.raises(DataError, match="was replaced by another one"):
        reader.poll()


def test_several_offsets_are_bound_and_removed_ones_stay_removed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(text(1, 2))
    given = config(tmp_path / "*", format="text")
    partitions = [{"filename": str(tmp_path / name)} for name in ("a", "b", "c")]
    [(_, a), (_, b), removed] = altering.connector(given).bind_offsets(
        given, [(partitions[0], SECOND), (partitions[1], SECOND), (partitions[2], None)]
    )
    assert removed == (partitions[2], None)
    inodes = [json.loads((offset or {})["identity"])["inode"] for offset in (a, b)]
    assert inodes == [(tmp_path / name).stat().st_ino for name in ("a", "b")]


@forms
def test_an_offset_set_before_its_file_was_there_is_bound_without_a_row(write: Any, tmp_path: Path) -> None:
    path, offsets = tmp_path / "rows", Committed()
    end = {"position": len(text(1, 2))}
    properties = write(tmp_path / "later")
    offsets.of_files[str(path)] = {"group": 1, "row": 0} if write is as_parquet else end
    given = {**config(path, **{"format": "text", **properties}), "task.files": json.dumps([str(path)])}
    task: Any = start(FileSourceTask(), given, offsets)  # type: ignore[arg-type]
    assert not task._next_batch()
    (tmp_path / "later").rename(path)
    batch = task.poll()
    assert not batch.splits
    offsets.commit(task, batch)
    assert "identity" in offsets.of_files[str(path)]
    assert not task._next_batch(), "the identity is committed once"


@pytest.mark.parametrize("position", [2, len(text(1)) + 1])
def test_an_offset_within_a_row_of_a_file_that_comes_later_fails(tmp_path: Path, position: int) -> None:
    path, offsets = tmp_path / "rows", Committed()
    offsets.of_files[str(path)] = {"position": position}
    given = {**config(path, format="text"), "task.files": json.dumps([str(path)])}
    task: Any = start(FileSourceTask(), given, offsets)  # type: ignore[arg-type]
    assert not task._next_batch()
    path.write_text(text(1, 2))
    with pytest.raises(DataError, match=f"The position {position} is within a row of the file"):
        task.poll()
