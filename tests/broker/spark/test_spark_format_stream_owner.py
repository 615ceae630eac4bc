"""Streams of format("fencepost") without Spark: instances of a query commit in every order, on a real broker."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from fencepost.api.errors import ConfigError
from fencepost.engine.errors import WriteRetriedError
from fencepost.spark.errors import CheckpointMismatchError, SinkFencedError, TopicRecreatedError
from fencepost.spark.format import ledger_log
from fencepost.spark.format.data_source import FencepostDataSource
from fencepost.spark.format.handed_over import BeginningSink
from fencepost.spark.format.open_write import TaskDone
from fencepost.spark.format.stream import BatchTaskDone, FencepostStreamWriter
from fencepost.spark.format.task_write import TaskWrite
from tests.support.checker import log_ends, read_topic
from tests.support.spark_queries import texts
from tests.support.topics import Topics

SCHEMA = StructType([StructField("value", StringType())])


@pytest.fixture
def topic(version_servers: str) -> str:
    return Topics(version_servers).create(partitions=1)


class Query:
    """A query's checkpoint, and calls that Spark would make."""

    def __init__(self, folder: Path, servers: str, topic: str, query: str = "a query") -> None:
        self.options = {"kafka.bootstrap.servers": servers, "topic": topic, "name": topic}
        self.options["checkpointlocation"] = str(folder)
        self._offsets = folder / "offsets"
        self._offsets.mkdir(parents=True)
        (folder / "metadata").write_text(json.dumps({"id": query}))

    def plan(self, batch: int, planned_ms: int) -> None:
        (self._offsets / str(batch)).write_text(f"v1\n{json.dumps({'batchTimestampMs': planned_ms})}\n0")

    def begin(self) -> FencepostStreamWriter:
        """Begin the newest batch, and return its writer, pickled and unpickled as by Spark."""
        sent = pickle.dumps(FencepostDataSource(self.options).streamWriter(SCHEMA, overwrite=False))
        found: FencepostStreamWriter = pickle.loads(sent)  # noqa: S301 - our own
        return found

    def run(self, batch: int, planned_ms: int, *values: str) -> None:
        self.plan(batch, planned_ms)
        self.commit(batch, written(self.begin(), *values))

    def commit(self, batch: int, *done: BatchTaskDone) -> None:
        self._ending().commit([*done], batch)

    def abort(self, batch: int, *done: BatchTaskDone | None) -> None:
        self._ending().abort([*done], batch)

    def _ending(self) -> FencepostStreamWriter:
        source = pickle.loads(pickle.dumps(FencepostDataSource(self.options)))  # noqa: S301 - our own
        found: FencepostStreamWriter = source.streamWriter(SCHEMA, overwrite=False)
        return found


@pytest.fixture
def query(tmp_path: Path, version_servers: str, topic: str) -> Query:
    return Query(tmp_path / "checkpoint", version_servers, topic)


@pytest.fixture
def as_driver(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the calls that follow come from the application of this name."""
    return lambda name: monkeypatch.setattr(ledger_log, "driver_process", lambda: name)


def written(writer: FencepostStreamWriter, *values: str, task: int = 0, attempt: int = 10) -> BatchTaskDone:
    """The commit message of a task that wrote these rows."""
    begun, spec = writer._begun, writer._spec
    assert begun is not None
    assert spec is not None
    if begun.open_write is None:
        return BatchTaskDone(TaskDone(task), begun)
    opened = begun.open_write
    with closing(TaskWrite(spec, opened.handed_over, opened.place, task, attempt)) as found:
        acks = found.write([pa.record_batch({"value": pa.array(values)})])
        done = TaskDone(task, attempt if found.has_claimed else None, acks, found.requested_counts)
    message: BatchTaskDone = pickle.loads(pickle.dumps(BatchTaskDone(done, begun)))  # noqa: S301 - our own
    return message


def is_open(version_servers: str, topic: str) -> bool:
    """Whether a topic has an open transaction, which holds up its consumers."""
    written_to, stable_to = log_ends(version_servers, topic)
    return stable_to < written_to


def test_batches_are_written_once_however_often_they_are_run(query: Query, version_servers: str, topic: str):
    query.run(0, 100, "a")
    query.run(0, 100, "a")
    query.run(1, 200, "b")
    query.run(1, 200, "b")
    query.run(2, 300)
    query.run(3, 400, "c")
    assert texts(version_servers, topic) == ["a", "b", "c"]


def test_a_checkpoint_that_is_not_the_newest_state_is_refused(
    query: Query, version_servers: str, topic: str, tmp_path: Path
):
    for batch in range(3):
        query.run(batch, 100 + batch, str(batch))
    with pytest.raises(CheckpointMismatchError, match="with other rows"):
        query.run(2, 999, "other rows under a number that is in Kafka")
    older = Query(tmp_path / "older", version_servers, topic)
    with pytest.raises(CheckpointMismatchError, match="comes after batch 2"):
        older.run(1, 101, "1")
    other = Query(tmp_path / "other", version_servers, topic, "another query")
    with pytest.raises(CheckpointMismatchError, match="holds the batches of another checkpoint"):
        other.run(3, 104, "3")
    without = Query(tmp_path / "without", version_servers, topic)
    without.options["name"] = f"{topic}-2"
    with pytest.raises(CheckpointMismatchError, match=r"set first\.batch=7"):
        without.run(7, 100, "7")
    assert texts(version_servers, topic) == ["0", "1", "2"]
    assert not is_open(version_servers, topic)


def test_a_topic_that_was_created_again_is_refused(query: Query, version_servers: str, topic: str):
    query.run(0, 100, "a")
    Topics(version_servers).delete(topic)
    Topics(version_servers).create(topic, partitions=1)
    with pytest.raises(TopicRecreatedError, match="deleted and created again"):
        query.run(1, 200, "b")
    assert texts(version_servers, topic) == []


def test_commits_before_the_fencing_are_seen(
    query: Query, version_servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
):
    """The older instance commits while the newer one takes over, too late for a read before the fencing."""
    query.plan(0, 100)
    older = written(query.begin(), "a")
    own = BeginningSink.own

    def commit_and_own(sink: BeginningSink) -> None:
        query.commit(0, older)
        own(sink)

    monkeypatch.setattr(BeginningSink, "own", commit_and_own)
    newer = query.begin()
    monkeypatch.undo()
    query.commit(0, written(newer, "a"))
    assert texts(version_servers, topic) == ["a"]


def test_a_newer_instance_fences_the_older_and_is_left_alone_by_its_abort(
    query: Query, version_servers: str, topic: str, as_driver: Callable[[str], None]
):
    query.plan(0, 100)
    as_driver("older")
    older = written(query.begin(), "a")
    as_driver("newer")
    newer = written(query.begin(), "a")
    as_driver("older")
    with pytest.raises(SinkFencedError):
        query.commit(0, older)
    query.abort(0, older)
    query.abort(0, None)
    as_driver("newer")
    query.commit(0, newer)
    assert texts(version_servers, topic) == ["a"]


def test_an_older_instance_that_comes_back_writes_nothing_under_another_number(
    query: Query, version_servers: str, topic: str
):
    query.run(0, 100, "a")
    query.run(1, 200, "b")
    query.plan(2, 300)
    late = written(query.begin(), "rows of batch 1, which the older instance had planned")
    with pytest.raises(CheckpointMismatchError, match=r"Spark commits batch 1, but the newest .* was batch 2"):
        query.commit(1, late)
    query.abort(1, late)
    query.run(2, 300, "c")
    assert texts(version_servers, topic) == ["a", "b", "c"]


def test_an_older_instance_does_not_take_the_newest_batch_for_its_own(query: Query, version_servers: str, topic: str):
    query.run(0, 100, "a")
    query.run(1, 200, "b")
    with pytest.raises(CheckpointMismatchError, match="Spark commits batch 0"):
        query.commit(0, written(query.begin()))
    assert texts(version_servers, topic) == ["a", "b"]


def test_an_abort_without_any_result_leaves_nothing_open(query: Query, version_servers: str, topic: str):
    query.run(0, 100, "a")
    query.plan(1, 200)
    late = written(query.begin(), "b")
    assert is_open(version_servers, topic)
    query.abort(1, None)
    assert not is_open(version_servers, topic)
    with pytest.raises(SinkFencedError):
        query.commit(1, late)
    query.run(1, 200, "b")
    assert texts(version_servers, topic) == ["a", "b"]


def test_an_abort_after_a_commit_takes_nothing_back(query: Query, version_servers: str, topic: str):
    query.run(0, 100, "a")
    query.abort(0, None)
    query.run(1, 200, "b")
    assert texts(version_servers, topic) == ["a", "b"]


def test_a_second_attempt_of_a_task_writes_nothing(query: Query, version_servers: str, topic: str):
    query.plan(0, 100)
    writer = query.begin()
    first = written(writer, "a")
    with pytest.raises(WriteRetriedError, match="ran task 0 of a write again"):
        written(writer, "a", attempt=11)
    query.commit(0, first)
    assert [record.value for record in read_topic(version_servers, topic)] == [b"a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transforms": "a"}, r"has no transforms: use df\.writeStream\.foreachBatch\(exactly_once\(\.\.\.\)\)"),
        ({"errors.tolerance": "all"}, r"has no errors\.tolerance"),
        ({"run": "1"}, "run is for a DataFrame"),
        ({"kafka.ssl.keystore.key": "-----BEGIN"}, r"Spark may show .*set ssl\.keystore\.location.*exactly_once"),
        (
            {"checkpointlocation": "s3a://bucket/checkpoint"},
            r"not a folder of the machine\. Put the checkpoint in a folder",
        ),
        ({"checkpointlocation": "/no/such/folder"}, "No such file"),
        ({"asyncprogresstrackingenabled": "true"}, "asyncprogresstrackingenabled is neither"),
    ],
)
def test_unsupported_streams_are_refused_before_any_request(options: dict[str, str], message: str, tmp_path: Path):
    query = Query(tmp_path / "checkpoint", "127.0.0.1:1", "orders")
    query.plan(0, 100)
    query.options |= options
    with pytest.raises(ConfigError, match=message):
        query.begin()
