"""One Kafka transaction across the executors of a Spark cluster, and an executor that is killed half-way."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from fencepost.api.record import SourceBatch
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import SparkJobError
from fencepost.spark import exactly_once, write_kafka
from tests.support.checker import read_topic
from tests.support.engine import NumberReader, TrickyReader, pipeline, producer, splits, write, write_into
from tests.support.processes import wait_for
from tests.support.spark_cluster import SparkCluster, spark_cluster
from tests.support.spark_queries import FileQuery, numbered, texts, users_thread
from tests.support.topics import Topics

COUNT = 40_000
ROOT = str(Path(__file__).parents[2])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster"), workers=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def engine(cluster: SparkCluster) -> Iterator[SparkEngine]:
    engine = SparkEngine(cluster.settings, import_path=[ROOT])
    # Spark is started here, so that no test's deadline includes its start.
    engine.session()
    yield engine
    engine.stop()


def test_three_executors_write_one_transaction(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=6)
    batch = SourceBatch(reader=NumberReader(("key",)), splits=splits(COUNT, 6))
    with producer(bootstrap_servers) as owner:
        owner.begin_transaction()
        result = write_into(engine, owner, batch, pipeline(topic))
        assert read_topic(bootstrap_servers, topic) == []
        owner.commit_transaction()
    found = read_topic(bootstrap_servers, topic)
    assert result.written == COUNT
    assert sorted(int(r.value or b"") for r in found) == list(range(COUNT))
    for partition in range(6):
        own = [int(r.value or b"") for r in found if r.partition == partition]
        assert own == sorted(own)


@dataclass(frozen=True)
class MeetingReader:
    """Returns, for each of three splits, the id of the process that reads it, once all three are being read."""

    folder: str
    schema: str = "value STRING"

    def read(self, split: object) -> Iterator[pa.RecordBatch]:
        Path(self.folder, str(split)).touch()
        wait_for(lambda: len(os.listdir(self.folder)) == 3, what="the readers of the other splits")  # noqa: PTH208 - a count
        yield pa.RecordBatch.from_pydict({"value": [str(os.getpid())]})


def test_each_executor_of_the_cluster_reads_a_part(
    cluster: SparkCluster, engine: SparkEngine, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    topic = topics.create(partitions=3)
    batch = SourceBatch(reader=MeetingReader(str(tmp_path)), splits=[0, 1, 2])
    with producer(bootstrap_servers) as owner:
        write(engine, owner, batch, pipeline(topic))
    readers = [int(r.value or b"") for r in read_topic(bootstrap_servers, topic)]
    assert len({cluster.executor_of(reader).pid for reader in readers}) == 3


def test_a_batch_whose_executor_was_killed_is_aborted_and_committed_once(
    cluster: SparkCluster, engine: SparkEngine, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    topic = topics.create(partitions=3)

    def kill(reader: int) -> None:
        cluster.executor_of(reader).kill()

    write_with_a_kill(engine, bootstrap_servers, topic, tmp_path / "hangs", kill=kill, error="ExecutorLostFailure")


def write_with_a_kill(
    engine: SparkEngine, bootstrap_servers: str, topic: str, marker: Path, *, kill: Callable[[int], None], error: str
) -> None:
    """Write a batch whose job fails with `error` because `kill` ends one of its readers; then write it again."""
    batch = SourceBatch(reader=TrickyReader("hang", COUNT - 5, str(marker)), splits=splits(COUNT, 3))

    def kill_reader() -> None:
        wait_for(lambda: marker.exists() and marker.read_text())
        # The other executors' parts are in Kafka by then, in the transaction that will be aborted.
        wait_for(lambda: len(read_topic(bootstrap_servers, topic, isolation="read_uncommitted")) >= COUNT * 2 // 3)
        kill(int(marker.read_text()))

    killer = threading.Thread(target=kill_reader)
    killer.start()
    with producer(bootstrap_servers) as owner:
        with pytest.raises(SparkJobError, match=error):
            write(engine, owner, batch, pipeline(topic))
        killer.join()
        assert read_topic(bootstrap_servers, topic) == []
        write(engine, owner, batch, pipeline(topic))
    found = read_topic(bootstrap_servers, topic)
    assert sorted(int(r.value or b"") for r in found) == list(range(COUNT))
    assert len(read_topic(bootstrap_servers, topic, isolation="read_uncommitted")) > COUNT


@dataclass(frozen=True)
class HangingOnce:
    """Hangs after its first rows, until its executor is killed."""

    marker: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if not Path(self.marker).exists():
                Path(self.marker).write_text(str(os.getpid()))
                while True:
                    time.sleep(0.1)


@contextmanager
def killed_executor(cluster: SparkCluster, marker: Path) -> Iterator[None]:
    """Kill the executor of the hanging task, and wait until it has ended."""

    def kill() -> None:
        cluster.executor_of(int(wait_for(lambda: marker.exists() and marker.read_text(), 400))).kill()

    killer = threading.Thread(target=kill)
    killer.start()
    yield
    killer.join()


def test_a_users_dataframe_whose_executor_was_killed_is_written_once(
    cluster: SparkCluster, engine: SparkEngine, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    topic = topics.create(partitions=2)
    marker = tmp_path / "hangs"

    frame = engine.session().range(0, COUNT, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    frame = frame.mapInArrow(HangingOnce(str(marker)), "value STRING")
    options = {"bootstrap.servers": bootstrap_servers}
    with killed_executor(cluster, marker):
        assert write_kafka(frame, topic=topic, run="1", **options).records == COUNT
    assert write_kafka(frame, topic=topic, run="1", **options).skipped
    assert sorted(int(r.value or b"") for r in read_topic(bootstrap_servers, topic)) == list(range(COUNT))


def test_a_streaming_query_whose_executor_was_killed_continues(
    cluster: SparkCluster, engine: SparkEngine, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    name = topics.create(partitions=2)
    marker = tmp_path / "hangs"

    function = exactly_once(topic=name, name=name, **{"bootstrap.servers": bootstrap_servers})
    query = FileQuery(engine.session(), tmp_path, function)
    query.shape = lambda frame: frame.dropDuplicates(["value"]).mapInArrow(HangingOnce(str(marker)), "value STRING")
    query.add(*numbered(0, COUNT))
    query.add(*numbered(COUNT - 5, COUNT + 5))
    with killed_executor(cluster, marker):
        query.run()
    assert [sink.retries for sink in function.statistics] == [1]
    assert texts(bootstrap_servers, name) == sorted(numbered(0, COUNT + 5))


def test_a_stream_of_the_format_whose_executor_was_killed_continues(
    cluster: SparkCluster, engine: SparkEngine, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    name = topics.create(partitions=2)
    marker = tmp_path / "hangs"
    with users_thread(engine.session()) as session:
        query = FileQuery(session, tmp_path, {"bootstrap.servers": bootstrap_servers, "topic": name, "name": name})
        query.shape = lambda frame: frame.dropDuplicates(["value"]).mapInArrow(HangingOnce(str(marker)), "value STRING")
        query.add(*numbered(0, COUNT))
        query.add(*numbered(COUNT - 5, COUNT + 5))
        with killed_executor(cluster, marker):
            assert "ExecutorLostFailure" in query.refusal()
        assert texts(bootstrap_servers, name) == []
        query.run()
    assert texts(bootstrap_servers, name) == sorted(numbered(0, COUNT + 5))


def test_a_batch_whose_spark_worker_was_killed_is_committed_once_by_the_others(
    cluster: SparkCluster, engine: SparkEngine, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    topic = topics.create(partitions=3)
    # Spark does not count the loss of a whole worker as a task failure, and runs its tasks again.
    error = "ExecutorLost|ran partition . of a write again"
    kill = cluster.replace_worker_of
    write_with_a_kill(engine, bootstrap_servers, topic, tmp_path / "hangs", kill=kill, error=error)
