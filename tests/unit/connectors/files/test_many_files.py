"""One task with many files: which of them share a batch, and that scans stay cheap."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from fencepost import DataError, RetriableError, SourceBatch
from fencepost.api.errors import IllegalStateError
from fencepost.connectors.files import task as file_task
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.discovery import own_listing, shares
from fencepost.connectors.files.discovery.file_rule import TASK_RULE
from fencepost.connectors.files.discovery.own_listing import OwnListing
from fencepost.connectors.files.discovery.shares import TASK_FILES, TASK_PACKED
from fencepost.connectors.files.task import FileSourceTask
from fencepost.connectors.files.tracked import TRANSITIONS, FileState, TrackedFile
from tests.unit.connectors.files.discovery.test_ended import Committed
from tests.unit.connectors.files.renaming import Reader, lines, text
from tests.unit.connectors.files.test_file_source import config, tasks
from tests.unit.connectors.support import CommittedOffsets, read, start, start_connector

pytestmark = pytest.mark.usefixtures("short_waits")


def write(folder: Path, count: int, form: str = "{}\n") -> list[str]:
    for number in range(count):
        (folder / f"{number:03}").write_text(form.format(number))
    return [str(number) for number in range(count)]


def batches_of(task: Any) -> list[SourceBatch]:
    return list(iter(task.poll, None))


def test_small_files_come_in_one_batch_in_their_order_each_with_its_offset(tmp_path: Path) -> None:
    rows = write(tmp_path, 300)
    [task] = tasks(config(tmp_path / "*", format="text"))
    [batch] = batches_of(task)
    assert read(batch) == rows
    assert [partition["filename"] for partition, _ in batch.offsets] == sorted(map(str, tmp_path.iterdir()))
    assert [offset["position"] for _, offset in batch.offsets if offset] == [len(row) + 1 for row in rows]
    assert batch.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


@pytest.mark.parametrize(("compress", "most"), [(bytes, 100), (gzip.compress, 140)])
def test_files_are_added_to_a_batch_up_to_batch_bytes(tmp_path: Path, compress: Any, most: int) -> None:
    """The size of compressed content is known only when it is read, so one file of 40 bytes may exceed batch.bytes."""
    for number in range(5):
        (tmp_path / str(number)).write_bytes(compress(b"".join(b"%d %d\n" % (number, line) for line in range(10))))
    [task] = tasks(config(tmp_path / "*", format="text", batch_bytes="100"))
    found = batches_of(task)
    assert [row for batch in found for row in read(batch)] == [
        f"{number} {line}" for number in range(5) for line in range(10)
    ]
    assert max(batch.bytes or 0 for batch in found) <= most
    assert len(found) < 5


def test_a_file_is_read_as_a_whole_before_the_next_one(tmp_path: Path) -> None:
    lines = [f"a {line}" for line in range(100)]
    (tmp_path / "a").write_text("\n".join(lines) + "\n")
    (tmp_path / "b").write_text("b\n")
    [task] = tasks(config(tmp_path / "*", format="text", batch_bytes="64"))
    assert [row for batch in batches_of(task) for row in read(batch)] == [*lines, "b"]


def test_files_with_other_columns_come_in_another_batch(tmp_path: Path) -> None:
    for name, header in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "x")):
        (tmp_path / name).write_text(f"{header}\n{name}\n")
    [task] = tasks(config(tmp_path / "*", format="csv", header="true"))
    found = batches_of(task)
    assert [read(batch) for batch in found] == [[{"x": "a"}, {"x": "b"}], [{"y": "c"}], [{"x": "d"}]]
    assert [[partition["filename"][-1] for partition, _ in batch.offsets] for batch in found] == [
        ["a", "b"],
        ["c"],
        ["d"],
    ]


def test_an_error_of_a_file_comes_after_the_records_of_those_before_it(tmp_path: Path) -> None:
    write(tmp_path, 3)
    offsets = CommittedOffsets({str(tmp_path / "002"): 90})
    [task] = tasks(config(tmp_path / "*", format="text"), offsets=offsets)
    assert read(task.poll()) == ["0", "1"]
    with pytest.raises(DataError, match=r"/002 has 2 bytes, but its offset says .* read on from byte 90"):
        task.poll()


def test_a_header_that_does_not_fit_is_an_error_after_the_records_before_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n1\n")
    (tmp_path / "b").write_text("x,x\n1,2\n")
    [task] = tasks(config(tmp_path / "*", format="csv", header="true"))
    assert read(task.poll()) == [{"x": "1"}]
    for _ in range(2):
        with pytest.raises(DataError, match="b"):
            task.poll()


def test_a_poll_looks_at_some_of_many_idle_files_and_finds_each_that_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 50)
    task: Any = tasks(config(tmp_path / "*", format="text"))[0]
    batches_of(task)
    monkeypatch.setattr(file_task, "CHECKED_FILES", 10)
    looks: list[object] = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **options: looks.append(path) or stat(path, **options))
    assert not task._next_batch()
    assert len({str(path) for path in looks if str(path).startswith(str(tmp_path))}) == 10
    for number in (49, 0, 23):
        with (tmp_path / f"{number:03}").open("a") as file:
            file.write("more\n")
        found = [row for _ in range(6) for batch in task._next_batch() for row in read(_batch(batch))]
        assert found == ["more"]


def _batch(found: Any) -> SourceBatch:
    return SourceBatch(reader=found.reader, splits=[split for splits in found.splits.values() for split in splits])


def test_many_ends_are_committed_together_before_the_files_are_taken_away(tmp_path: Path) -> None:
    rows = write(tmp_path, 40)
    offsets = Committed()
    properties = config(tmp_path / "*", format="text", files_after_end="delete")
    [task] = tasks(properties, offsets=offsets)  # type: ignore[arg-type]
    data, ends = task.poll(), task.poll()
    assert isinstance(data, SourceBatch)
    assert isinstance(ends, SourceBatch)
    assert read(data) == rows
    assert len(ends.offsets) == 40
    assert all("ended" in (offset or {}) for _, offset in ends.offsets)
    assert len(list(tmp_path.iterdir())) == 40
    task.commit()
    assert not list(tmp_path.iterdir())
    removed = task.poll()
    assert isinstance(removed, SourceBatch)
    assert [offset for _, offset in removed.offsets] == [None] * 40


def test_the_lag_falls_with_returned_bytes_and_rises_with_new_ones(tmp_path: Path) -> None:
    write(tmp_path, 10)
    [task] = tasks(config(tmp_path / "*", format="text"))
    assert task.lag() == 20
    task.poll()
    assert task.lag() == 0
    (tmp_path / "003").write_text("3\nno end")
    assert task.poll() is None
    assert task.lag() == len("no end")


def test_a_file_changes_its_state_as_the_diagram_says(tmp_path: Path) -> None:
    write(tmp_path, 1)
    [task] = tasks(config(tmp_path / "*", format="text"))
    [tracked] = task._files  # type: ignore[attr-defined]
    assert TRANSITIONS.keys() == set(FileState)
    with pytest.raises(IllegalStateError, match="is NEW and cannot become GONE"):
        tracked.become(FileState.GONE)


@pytest.mark.parametrize(("count", "form"), [(500, TASK_FILES), (501, TASK_PACKED)])
def test_500_files_are_named_in_a_configuration_and_501_are_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, form: str
) -> None:
    # pytest's paths are long.
    monkeypatch.setattr(shares, "MOST_CHARACTERS", 1_000_000)
    write(tmp_path, count)
    connector = FileSourceConnector()
    start_connector(connector, config(tmp_path / "*", format="text"))
    [given] = connector.task_configs(1)
    assert given.keys() & {TASK_FILES, TASK_PACKED} == {form}
    files: list[TrackedFile] = start(FileSourceTask(), given)._files  # type: ignore[attr-defined]
    assert [tracked.path for tracked in files] == sorted(map(str, tmp_path.iterdir()))


class Machine:
    """A reader whose tasks list the files themselves, and look for missing files at each poll."""

    def __init__(self, folder: Path) -> None:
        for name in "abc":
            (folder / name).write_text(text("abc".index(name)))
        self.reader = Reader(folder / "*", files_poll_interval_ms="1")
        self.reader.read_all()

    def configured(self) -> dict[str, str]:
        """Make the configuration now, for a task that starts later."""
        [given] = self.reader.restart()
        assert TASK_RULE in given
        return given

    def start(self, given: dict[str, str]) -> None:
        self.reader.tasks = [start(FileSourceTask(), given, self.reader.offsets)]  # type: ignore[arg-type]


@pytest.fixture
def machine(by_rule: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:  # noqa: ARG001 - what it sets
    monkeypatch.setattr(own_listing, "LEAST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(own_listing, "MOST_WAIT_SECONDS", 0.0)
    folder = tmp_path / "in"
    folder.mkdir()
    return Machine(folder)


def test_a_file_that_a_task_sees_later_than_the_connector_is_read_on(machine: Machine, tmp_path: Path) -> None:
    with (tmp_path / "in" / "b").open("a") as file:
        file.write(text(3))
    given = machine.configured()
    late = (tmp_path / "in" / "b").rename(tmp_path / "late")
    machine.start(given)
    assert sorted(machine.reader.read_all()) == lines(0, 1, 2)
    late.rename(tmp_path / "in" / "b")
    assert sorted(machine.reader.read_all()) == lines(0, 1, 2, 3)


def test_a_file_that_the_connector_has_not_seen_is_not_read(machine: Machine, tmp_path: Path) -> None:
    given = machine.configured()
    (tmp_path / "in" / "d").write_text(text(3))
    (tmp_path / "in" / "a").rename(tmp_path / "in" / "e")
    machine.start(given)
    assert sorted(machine.reader.read_all()) == lines(0, 1, 2)
    machine.configured()
    assert sorted(machine.reader.read_all()) == lines(0, 1, 2, 3)


def test_a_renamed_file_that_comes_after_its_task_has_started_is_an_error(machine: Machine, tmp_path: Path) -> None:
    """A task decides at its start from which offset a renamed file goes on."""
    new = (tmp_path / "in" / "b").rename(tmp_path / "in" / "new")
    given = machine.configured()
    new.rename(tmp_path / "away")
    machine.start(given)
    machine.reader.read_all()
    (tmp_path / "away").rename(new)
    with pytest.raises(DataError, match=r"/new, which was renamed .* came since. Restart the task"):
        machine.reader.read_all()
    machine.start(given)
    assert sorted(machine.reader.read_all()) == lines(0, 1, 2)


def test_a_file_that_comes_late_is_read_after_its_offset_could_not_be_read(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in" / "d").write_text(text(3))
    given = machine.configured()
    late = (tmp_path / "in" / "d").rename(tmp_path / "late")
    machine.start(given)
    machine.reader.read_all()
    late.rename(tmp_path / "in" / "d")

    def refuse(_: object) -> None:
        raise RetriableError("no broker answers")

    with monkeypatch.context() as patched:
        patched.setattr(machine.reader.offsets, "offsets", refuse)
        with pytest.raises(RetriableError):
            machine.reader.read_all()
    assert sorted(machine.reader.read_all()) == lines(0, 1, 2, 3)


def test_a_task_that_is_to_end_waits_for_a_missing_file(machine: Machine, tmp_path: Path) -> None:
    given = machine.configured()
    late = (tmp_path / "in" / "b").rename(tmp_path / "late")
    machine.start(given)
    [task] = machine.reader.tasks
    machine.reader.read_all()
    assert not task.at_end()
    late.rename(tmp_path / "in" / "b")
    machine.reader.read_all()
    assert task.at_end()


def test_a_task_that_is_to_end_fails_without_a_file(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = machine.configured()
    (tmp_path / "in" / "b").unlink()
    monkeypatch.setattr(OwnListing, "_has_waited", True)
    machine.start(given)
    with pytest.raises(DataError, match="1 of 3 files of the task that the connector found are not there"):
        machine.reader.tasks[0].at_end()


@pytest.mark.usefixtures("by_rule")
def test_a_task_reads_a_file_once_the_connector_takes_it_to_be_whole(tmp_path: Path) -> None:
    rows = write(tmp_path, 40)
    young = [path for number, path in enumerate(sorted(tmp_path.iterdir())) if number % 2]
    for path in tmp_path.iterdir():
        os.utime(path, ns=(0, 0))
    for path in young:
        path.touch()
    properties = {"files_settle_ms": "3600000", "files_poll_interval_ms": "1"}
    reader = Reader(tmp_path / "*", **properties)
    [given] = reader.restart()
    assert given.keys() & {TASK_FILES, TASK_PACKED, TASK_RULE} == {TASK_RULE}
    assert sorted(reader.read_all()) == sorted(rows[::2])
    # Only for the task, the file has settled.
    os.utime(young[0], ns=(0, 0))
    reader.tasks = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    assert sorted(reader.read_all()) == sorted(rows[::2])
    reader.restart()
    assert sorted(reader.read_all()) == sorted([*rows[::2], rows[1]])
