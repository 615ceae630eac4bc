from __future__ import annotations

import logging
import pickle
import threading
from pathlib import Path

import pytest

from fencepost import ConfigError, DataError, SourceBatch
from fencepost.connectors.files.stream_source import FileStreamSourceConnector, FileStreamSourceTask
from tests.unit.connectors.support import CommittedOffsets, errors_in, read, read_to_end, start, start_connector


def config(path: Path, **properties: str) -> dict[str, str]:
    return {
        "file": str(path),
        "topic": "lines",
        **{name.replace("_", "."): value for name, value in properties.items()},
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_whole_lines_are_returned_with_the_position_behind_them(path: Path) -> None:
    path.write_bytes(b"one\ntwo\r\nthr")
    task = start(FileStreamSourceTask(), config(path))
    batch = task.poll()
    assert read(batch) == ["one", "two"]
    assert isinstance(batch, SourceBatch)
    assert batch.offsets == [({"filename": str(path)}, {"position": 9})]
    assert batch.bytes == 9


def test_the_lag_is_the_rest_of_the_file_when_it_was_last_read(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthr")
    task = start(FileStreamSourceTask(), config(path, batch_size="1"))
    assert task.lag() == 11
    task.poll()
    assert task.lag() == 7
    path.unlink()
    assert start(FileStreamSourceTask(), config(path)).lag() == 0


def test_a_line_is_returned_once_it_is_terminated(path: Path) -> None:
    path.write_bytes(b"one\nhal")
    task = start(FileStreamSourceTask(), config(path))
    assert read(task.poll()) == ["one"]
    assert task.poll() is None
    append(path, b"f\r")
    assert task.poll() is None
    append(path, b"next\n")
    assert read(task.poll()) == ["half", "next"]


def test_a_task_resumes_after_the_last_commit(path: Path) -> None:
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1000)))
    offsets, rows = CommittedOffsets(), []
    for _ in range(4):
        batch = start(FileStreamSourceTask(), config(path, batch_bytes="2000"), offsets).poll()
        assert isinstance(batch, SourceBatch)
        offsets.commit(batch)
        rows += read(batch)
    rows += read_to_end(start(FileStreamSourceTask(), config(path), offsets))
    assert rows == [f"line {number}" for number in range(1000)]


def test_a_poll_returns_no_more_lines_than_batch_size_where_it_is_set(path: Path) -> None:
    path.write_bytes(b"1\n2\n3\n4\n5\n")
    task = start(FileStreamSourceTask(), config(path, batch_size="2"))
    assert [read(task.poll()) for _ in range(3)] == [["1", "2"], ["3", "4"], ["5"]]


def test_a_poll_returns_no_more_bytes_than_batch_bytes(path: Path) -> None:
    path.write_bytes(b"1\n22\n3\n")
    task = start(FileStreamSourceTask(), config(path, batch_bytes="5"))
    assert [read(task.poll()) for _ in range(2)] == [["1", "22"], ["3"]]


def test_a_line_longer_than_batch_bytes_is_an_error_that_names_the_property(path: Path) -> None:
    path.write_bytes(b"x" * 11)
    task = start(FileStreamSourceTask(), config(path, batch_bytes="10"))
    with pytest.raises(DataError, match=r"in the 10 bytes from byte 0.*batch\.bytes"):
        task.poll()


def test_a_missing_file_is_waited_for_and_logged_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    task = start(FileStreamSourceTask(), config(path))
    with caplog.at_level(logging.WARNING):
        assert task.poll() is None
        assert task.poll() is None
    assert [record.getMessage() for record in caplog.records] == [
        f"The file {path} does not exist; waiting for it to be created"
    ]
    path.write_bytes(b"here\n")
    assert read(task.poll()) == ["here"]


def test_a_file_shorter_than_its_position_is_an_error_that_names_both(path: Path) -> None:
    """It was truncated, or a user set the offset before the file came: then nothing of it was read."""
    path.write_bytes(b"short\n")
    task = start(FileStreamSourceTask(), config(path), CommittedOffsets({str(path): 100}))
    with pytest.raises(
        DataError, match=rf"{path} has 6 bytes, but its offset says .* byte 100.*or reset the conn"
    ) as error:
        task.poll()
    assert "was read" not in str(error.value)
    assert "set the offset {'position': <bytes>} to a byte of the file with PATCH" in str(error.value)


def test_a_directory_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a directory"):
        start(FileStreamSourceTask(), config(tmp_path)).poll()


def test_a_file_that_cannot_be_reached_is_an_error(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(DataError, match="cannot be read: Not a directory"):
        start(FileStreamSourceTask(), config(path / "inside")).poll()


@pytest.mark.parametrize("position", [-1, "4", True, 1.5])
def test_an_offset_of_another_form_is_an_error(path: Path, position: object) -> None:
    with pytest.raises(DataError, match="is not of the form"):
        start(FileStreamSourceTask(), config(path), CommittedOffsets({str(path): position}))


def test_stop_wakes_a_poll_that_waits(path: Path) -> None:
    task = start(FileStreamSourceTask(), config(path))
    results: list[object] = []
    poller = threading.Thread(target=lambda: results.append(task.poll()))
    task.stop()
    poller.start()
    poller.join(timeout=60)
    assert results == [None]


def test_the_end_is_reached_when_only_a_part_of_a_line_is_left(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_bytes(b"one\ntwo")
    task = start(FileStreamSourceTask(), config(path))
    assert not task.at_end()
    assert read_to_end(task) == ["one"]
    assert "ends in a line without a line end, from byte 4 on" in caplog.text


def test_a_missing_file_has_no_end_to_read_to(path: Path) -> None:
    with pytest.raises(DataError, match="does not exist, so there is no end"):
        start(FileStreamSourceTask(), config(path)).at_end()


def test_a_reader_can_be_sent_to_executors(path: Path) -> None:
    path.write_bytes(b"one\n")
    batch = start(FileStreamSourceTask(), config(path)).poll()
    assert isinstance(batch, SourceBatch)
    reader, splits = pickle.loads(pickle.dumps((batch.reader, batch.splits)))  # noqa: S301 - our own
    assert [row.as_py() for split in splits for part in reader.read(split) for row in part.column("value")] == ["one"]


def test_the_standard_input_is_refused() -> None:
    connector = FileStreamSourceConnector()
    with pytest.raises(ConfigError, match="file"):
        connector.start({"topic": "lines"})
    file = connector.config().keys()["file"]
    assert file.required
    assert "standard input, which is not supported" in file.documentation


def test_one_file_is_one_task_with_any_tasks_max(path: Path) -> None:
    connector = FileStreamSourceConnector()
    start_connector(connector, config(path))
    assert connector.task_configs(5) == [
        {**config(path), "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}
    ]


def test_properties_are_checked_as_kafkas_are() -> None:
    found = errors_in(FileStreamSourceConnector(), {"topic": "", "batch.size": "x"})
    assert {name: len(errors) for name, errors in found.items()} == {"file": 1, "topic": 1, "batch.size": 1}
    assert FileStreamSourceConnector().config().keys()["batch.size"].default == 2000


def test_offsets_can_be_altered_to_positions_and_removed(path: Path) -> None:
    connector = FileStreamSourceConnector()
    assert connector.alter_offsets(config(path), [({"filename": "a"}, {"position": 7}), ({"x": 1}, None)])
    with pytest.raises(DataError, match="position"):
        connector.alter_offsets(config(path), [({"filename": "a"}, {"position": -7})])
    with pytest.raises(DataError, match="filename"):
        connector.alter_offsets(config(path), [({"file": "a"}, {"position": 7})])
