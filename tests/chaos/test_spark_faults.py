"""What Spark does with a batch whose Python worker dies; a write is never run twice."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import SparkJobError, WriteRetriedError
from fencepost.engine.spark.session_settings import REQUIRED
from fencepost.kafka.errors import TransactionAbortableError
from fencepost.kafka.producer.idempotent import IdempotentProducer
from fencepost.kafka.producer.transaction import TransactionState, TransactionVersion
from fencepost.kafka.producer.transactional import TransactionalProducer
from tests.support.checker import read_topic
from tests.support.engine import NumberReader, TrickyReader, pipeline, producer, splits, write, write_into
from tests.support.fault_proxy import ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.proxied_broker import proxied_v1_broker
from tests.support.topics import Topics, unique
from tests.support.writing import producer_config

COUNT = 40_000


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[SparkEngine]:
    # Spark kills the Python workers of cancelled tasks after two seconds; zombie tests need them alive.
    engine = SparkEngine({"spark.python.task.killTimeout": "1h"})
    yield engine
    engine.stop()


@pytest.fixture
def engine(shared_engine: SparkEngine) -> SparkEngine:
    """An engine that stays usable, with a started session: no test's deadline includes the start of Spark."""
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
    """An engine whose session may run a stage again, which fencepost otherwise forbids."""
    shared_engine.stop()
    monkeypatch.delitem(REQUIRED, "spark.stage.maxConsecutiveAttempts")
    settings = {
        "spark.master": "local[1]",
        "spark.local.dir": str(tmp_path / "spark"),
        "spark.stage.maxConsecutiveAttempts": "4",
        # Without adaptive execution, the stage that reads the source's shuffle is the stage that writes to Kafka.
        "spark.sql.adaptive.enabled": "false",
        "spark.shuffle.reduceLocality.enabled": "false",
    }
    engine = SparkEngine(settings)
    engine.session()
    monkeypatch.undo()
    yield engine
    engine.stop()


def batch(tmp_path: Path) -> SourceBatch:
    """A batch that once kills the Python worker which reads its second half."""
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
    """Records of the first attempt stay, and may be there twice."""
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
        # The JVM's sockets close before its process has ended, so the write below fails before this wait is over.
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
    """One task reads two shuffle partitions.

    Kafka has its rows of the first one when the second one cannot be fetched.
    """
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


@pytest.fixture(scope="module")
def v1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedBroker, FaultProxy]]:
    """A broker of transaction version 1 that accepts late records of any transaction whose epoch it knows."""
    with proxied_v1_broker(tmp_path_factory.mktemp("v1"), verifying=False) as proxied:
        yield proxied


@pytest.fixture(params=TransactionVersion, ids=lambda version: version.name)
def proxied(request: pytest.FixtureRequest) -> tuple[str, FaultProxy]:
    """A broker of each transaction version, and the proxy before it."""
    if request.param is TransactionVersion.V1:
        broker, proxy = request.getfixturevalue("v1")
    else:
        broker, proxy = request.getfixturevalue("broker"), request.getfixturevalue("fault_proxy")
    return broker.bootstrap_servers, proxy


@dataclass(frozen=True)
class Zombie:
    """A Python worker of Spark that is suspended half-way through its writes, and whose job has ended."""

    marker: Path
    proxy: FaultProxy

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(int(self.marker.read_text()))

    @property
    def frozen(self) -> bool:
        return self.marker.exists() and bool(self.marker.read_text()) and self.process.status() == psutil.STATUS_STOPPED

    def wake(self) -> None:
        """Resume the process, and wait until brokers have answered its next Produce request."""
        answered = self.proxy.responses[ApiKey.PRODUCE]
        self.process.send_signal(signal.SIGCONT)
        wait_for(lambda: self.proxy.responses[ApiKey.PRODUCE] > answered, what="it has sent more, and was answered")


@dataclass(frozen=True)
class FrozenReader:
    """Suspends the process that reads the second half.

    With `dies`, the process that reads the first half kills itself then.
    """

    freezing: TrickyReader
    dies: bool
    schema: str = "value STRING"

    def read(self, split: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        if split[0] > 0:
            yield from self.freezing.read(split)
            return
        yield NumberReader().batch(range(split[1]))
        while self.dies:
            marker = Path(self.freezing.once)
            if marker.exists() and marker.read_text():
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.05)


@pytest.mark.parametrize(("end", "next_is"), [("cancelled", "not begun"), ("lost", "open")])
def test_records_of_a_frozen_writer_after_the_abort_are_not_committed(
    engine: SparkEngine, proxied: tuple[str, FaultProxy], tmp_path: Path, *, end: str, next_is: str
):
    servers, proxy = proxied
    topic, zombie = Topics(servers).create(partitions=2), Zombie(tmp_path / "frozen", proxy)
    reader = FrozenReader(TrickyReader("freeze", COUNT * 3 // 4, str(zombie.marker)), dies=end == "lost")
    cancelled = threading.Event()
    # Small batches, so that the suspended writer has sent some and has many left.
    with (
        closing(TransactionalProducer(producer_config(proxy.address, batch_size=8_192), unique("task"))) as owner,
        ThreadPoolExecutor() as threads,
    ):
        owner.init_transactions()
        owner.begin_transaction()
        batch = SourceBatch(reader=reader, splits=splits(COUNT, 2))
        writing = threads.submit(write_into, engine, owner, batch, pipeline(topic), cancelled=cancelled)
        wait_for(lambda: zombie.frozen, what="a writer is frozen")
        if end == "cancelled":
            cancelled.set()
            engine.cancel("connector-0")
        assert isinstance(writing.exception(), FencepostError)
        with pytest.raises(TransactionAbortableError, match="Not every writer"):
            owner.commit_transaction()
        owner.abort_transaction()
        if next_is == "not begun":
            assert read_topic(servers, topic) == [], "and the markers are written"
            zombie.wake()
        if owner.state is not TransactionState.READY:
            owner.init_transactions()
        owner.begin_transaction()
        write_into(engine, owner, [SourceRecord({}, {}, topic, partition=n, value="next") for n in (0, 1)], pipeline())
        if next_is == "open":
            zombie.wake()
        owner.commit_transaction()
        write(engine, owner, [SourceRecord({}, {}, topic, partition=0, value="later")], pipeline())

    assert len(read_topic(servers, topic, isolation="read_uncommitted")) > 3, "the frozen writer had sent some"
    assert sorted(record.value or b"" for record in read_topic(servers, topic)) == [b"later", b"next", b"next"]
