"""F2: what Spark does to a batch when its Python worker dies, and that a write is never run a second time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.errors import ConfigError
from fencepost.api.record import SourceBatch
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import SparkJobError, WriteRetriedError
from fencepost.engine.spark.session import REQUIRED
from fencepost.kafka.producer.idempotent import IdempotentProducer
from tests.support.checker import read_topic
from tests.support.engine import TrickyReader, pipeline, producer, splits, write, write_into
from tests.support.processes import wait_for
from tests.support.topics import Topics
from tests.support.writing import producer_config

COUNT = 40_000


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[SparkEngine]:
    engine = SparkEngine({})
    yield engine
    engine.stop()


@pytest.fixture
def engine(shared_engine: SparkEngine) -> SparkEngine:
    """For tests after which it can be used again. No deadline of theirs has to hold for the start of Spark as well."""
    shared_engine.session()
    return shared_engine


@pytest.fixture
def retrying_engine(shared_engine: SparkEngine) -> Iterator[SparkEngine]:
    """Takes the place of the other one, for there is one Spark session in a process."""
    shared_engine.stop()
    engine = SparkEngine({"spark.master": "local[2,4]", "spark.task.maxFailures": "4"})
    yield engine
    engine.stop()


@pytest.fixture
def rerunning_engine(
    shared_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SparkEngine]:
    """One whose session may run a stage again, which is refused otherwise."""
    shared_engine.stop()
    monkeypatch.delitem(REQUIRED, "spark.stage.maxConsecutiveAttempts")
    settings = {
        "spark.master": "local[1]",
        "spark.local.dir": str(tmp_path / "spark"),
        "spark.stage.maxConsecutiveAttempts": "4",
        # The stage that reads a shuffle of the source's is then the one that writes, with no other between them.
        "spark.sql.adaptive.enabled": "false",
        "spark.shuffle.reduceLocality.enabled": "false",
    }
    engine = SparkEngine(settings)
    engine.session()
    monkeypatch.undo()
    yield engine
    engine.stop()


def batch(tmp_path: Path) -> SourceBatch:
    """Kills the Python worker that reads the second half, once."""
    return SourceBatch(reader=TrickyReader("kill", COUNT - 5, str(tmp_path / "killed")), splits=splits(COUNT, 2))


def test_a_batch_whose_python_worker_was_killed_is_committed_once(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    topic = topics.create(partitions=2)
    with producer(bootstrap_servers) as owner:
        with pytest.raises(SparkJobError, match="Python worker exited unexpectedly"):
            write(engine, owner, batch(tmp_path), pipeline(topic))
        assert read_topic(bootstrap_servers, topic) == []
        write(engine, owner, batch(tmp_path), pipeline(topic))
    assert sorted(int(r.value or b"") for r in read_topic(bootstrap_servers, topic)) == list(range(COUNT))


def test_outside_of_transactions_a_killed_python_worker_costs_no_record(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    """What the first attempt wrote stays, and may be there twice."""
    topic = topics.create(partitions=2)
    owner = IdempotentProducer(producer_config(bootstrap_servers))

    def attempt() -> None:
        write_into(engine, owner, batch(tmp_path), pipeline(topic))

    with pytest.raises(SparkJobError, match="Python worker exited unexpectedly"):
        attempt()
    owner.renew()
    attempt()
    found = [int(r.value or b"") for r in read_topic(bootstrap_servers, topic)]
    assert set(found) == set(range(COUNT))
    before = len(found)
    attempt()
    assert len(read_topic(bootstrap_servers, topic)) == before + COUNT, "a later batch goes on under the same id"


def _has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_killed_jvm_fails_the_batch_and_the_next_attempt_has_another(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    topic = topics.create(partitions=2)
    marker = tmp_path / "hangs"
    hanging = SourceBatch(reader=TrickyReader("hang", COUNT - 5, str(marker)), splits=splits(COUNT, 2))

    def kill_jvm() -> None:
        wait_for(lambda: marker.exists() and marker.read_text())
        parents = psutil.Process(int(marker.read_text())).parents()
        jvm = next(parent for parent in parents if "java" in parent.name())
        jvm.kill()
        # Its sockets are closed before it has ended, so that the write below fails before that.
        wait_for(lambda: _has_ended(jvm))

    killer = threading.Thread(target=kill_jvm)
    killer.start()
    with producer(bootstrap_servers) as owner:
        with pytest.raises(SparkJobError, match="connector-0"):
            write(engine, owner, hanging, pipeline(topic))
        killer.join()
        write(engine, owner, hanging, pipeline(topic))
    assert sorted(int(r.value or b"") for r in read_topic(bootstrap_servers, topic)) == list(range(COUNT))


def test_a_write_that_spark_runs_again_is_refused(
    retrying_engine: SparkEngine, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    topic = topics.create(partitions=2)
    with producer(bootstrap_servers) as owner:
        with pytest.raises(WriteRetriedError, match=r"attempt 1\)"):
            write(retrying_engine, owner, batch(tmp_path), pipeline(topic))
        assert (tmp_path / "killed").exists()
        assert read_topic(bootstrap_servers, topic) == []
        write(retrying_engine, owner, batch(tmp_path), pipeline(topic))
    assert sorted(int(r.value or b"") for r in read_topic(bootstrap_servers, topic)) == list(range(COUNT))


def test_a_stage_that_spark_runs_again_is_refused(
    rerunning_engine: SparkEngine, bootstrap_servers: str, topic: str, tmp_path: Path
):
    """One writer reads two shuffled parts. What it wrote of the first is in Kafka when the second cannot be fetched."""
    shuffled = rerunning_engine.session().range(0, COUNT, numPartitions=2).repartition(2)
    lost = tmp_path / "lost"

    def lose_shuffle_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not lost.exists():
            files = list((tmp_path / "spark").rglob("shuffle_*"))
            lost.write_text(str(len(files)))
            for file in files:
                file.unlink()

    frame = shuffled.select(F.col("id").cast("string").alias("value")).mapInArrow(lose_shuffle_files, "value STRING")
    with producer(bootstrap_servers) as owner:
        with pytest.raises(WriteRetriedError, match=r"ran stage \d+ of a write again \(attempt 1\)"):
            write(rerunning_engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
        assert int(lost.read_text()) > 0
        assert read_topic(bootstrap_servers, topic, isolation="read_uncommitted") != []
        assert read_topic(bootstrap_servers, topic) == []
        write(rerunning_engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
    assert sorted(int(r.value or b"") for r in read_topic(bootstrap_servers, topic)) == list(range(COUNT))


def test_a_foreign_session_that_may_repeat_a_stage_is_refused(rerunning_engine: SparkEngine):
    configuration = rerunning_engine.session().sparkContext._jsc.sc().conf()
    for told in ("=4 cannot be used", "=4, which is Spark's default, cannot be used"):
        with pytest.raises(ConfigError, match=f"that fencepost did not start.*maxConsecutiveAttempts{told}"):
            SparkEngine({}).session()
        configuration.remove("spark.stage.maxConsecutiveAttempts")
    configuration.set("spark.stage.maxConsecutiveAttempts", "1")
    assert SparkEngine({}).session().range(3).count() == 3
