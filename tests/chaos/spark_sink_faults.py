"""Faults under a Spark sink that are too slow for each run of the suite: each row is in Kafka once.

`make chaos-spark` runs them with three seeds; the name of this file keeps it out of `make test`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.engine import SparkEngine
from fencepost.spark import exactly_once
from tests.conftest import FAST_EXPIRY
from tests.support.checker import read_topic
from tests.support.fault_proxy import FaultProxy, Link
from tests.support.processes import wait_for
from tests.support.proxied_broker import proxied_v1_broker
from tests.support.security import SecuredBroker
from tests.support.spark_drivers import PATIENCE, Drivers, processes_of
from tests.support.spark_queries import FileQuery, numbered, texts, users_session
from tests.support.spark_sink_app import WAIT, Waiting
from tests.support.topics import Topics, unique

pytestmark = [pytest.mark.timeout(3 * PATIENCE), pytest.mark.usefixtures("repetition")]

_SIZES = (3, 700, 2_500)
"""Batch sizes: the driver writes a batch of few rows that follows a small batch; executors write all others."""

_both_ways = pytest.mark.parametrize("by_format", [False, True], ids=["function", "format"])


@pytest.fixture(scope="module")
def local_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Spark's shuffle files."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark(local_dir: Path) -> Iterator[SparkSession]:
    settings = {
        "spark.master": "local[1]",
        "spark.local.dir": str(local_dir),
        "spark.sql.shuffle.partitions": "2",
        # Without adaptive execution, the stage that reads the shuffle is the stage that writes to Kafka.
        "spark.sql.adaptive.enabled": "false",
        "spark.shuffle.reduceLocality.enabled": "false",
    }
    with users_session(SparkEngine(settings)) as session:
        yield session


@contextmanager
def shaken(act: Callable[[], None], query: FileQuery, chance: random.Random) -> Iterator[None]:
    """From the first committed batch on, call `act` at random times, at least three times."""
    ended = threading.Event()
    failures: list[BaseException] = []

    def shake() -> None:
        count = 0
        try:
            wait_for(lambda: (query.checkpoint / "commits" / "0").exists() or ended.is_set(), PATIENCE)
            while not ended.wait(chance.uniform(0.5, 4)):
                act()
                count += 1
                if count == 3:
                    (query.folder / "go").touch()
        except BaseException as failure:  # noqa: BLE001 - raised below
            failures.append(failure)
            (query.folder / "go").touch()

    thread = threading.Thread(target=shake)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not failures, failures


def run_shaken(
    spark: SparkSession,
    folder: Path,
    servers: str,
    act: Callable[[], None],
    chance: random.Random,
    *,
    replication: int = -1,
    by_format: bool = False,
) -> None:
    """Run a query of ten batches while the brokers have faults; one batch waits until there were three faults.

    A query by format("fencepost") fails with a batch, and is started again.
    """
    name = Topics(servers).create(unique("shaken"), partitions=chance.choice([1, 3]), replication=replication)
    options = {"bootstrap.servers": servers, "batch.size": 5_000, "request.timeout.ms": 5_000, "max.block.ms": 300_000}
    told = {"topic": name, "name": name} | {option: str(value) for option, value in options.items()}
    query = FileQuery(spark, folder, told if by_format else exactly_once(topic=name, name=name, **options))
    query.shape = lambda frame: frame.dropDuplicates(["value"]).mapInArrow(Waiting(str(folder)), "value STRING")
    rows: list[str] = []
    for batch in range(10):
        new = [f"{batch}-{number}" for number in range(chance.choice(_SIZES))] + ([WAIT] if batch == 3 else [])
        query.add(*new)
        rows += new
    with shaken(act, query, chance):
        if by_format:
            wait_for(partial(runs_to_its_end, query), PATIENCE)
        else:
            query.run()
    found: list[str] = []

    def is_read() -> bool:
        # The brokers run again, but some partition may not have a leader yet.
        with suppress(KafkaException):
            found[:] = texts(servers, name)
            return True
        return False

    wait_for(is_read, PATIENCE)
    assert found == sorted(rows)


def runs_to_its_end(query: FileQuery) -> bool:
    """Whether a query ended without an error."""
    try:
        query.run()
    except StreamingQueryException:
        return False
    return True


@_both_ways
@pytest.mark.parametrize("version", [1, 2])
def test_the_sink_survives_a_broker_that_is_killed_again_and_again(
    spark: SparkSession, tmp_path: Path, chance: random.Random, version: int, by_format: bool
):
    arguments = ("--feature", f"transaction.version={version}")
    with EmbeddedBroker(tmp_path / "broker", properties=FAST_EXPIRY, format_arguments=arguments) as broker:
        (node,) = broker.nodes

        def restart() -> None:
            node.kill()
            time.sleep(chance.uniform(0, 1))
            node.start()

        run_shaken(spark, tmp_path, broker.bootstrap_servers, restart, chance, by_format=by_format)


@_both_ways
def test_nodes_of_a_cluster_that_are_killed_and_restarted_in_turn(
    spark: SparkSession, tmp_path: Path, chance: random.Random, three_node_broker: EmbeddedBroker, by_format: bool
):
    def restart() -> None:
        node = chance.choice(three_node_broker.nodes)
        node.kill()
        time.sleep(chance.uniform(0, 6))
        node.start()

    servers = three_node_broker.bootstrap_servers
    run_shaken(spark, tmp_path, servers, restart, chance, replication=3, by_format=by_format)


@pytest.fixture(params=[1, 2])
def proxy(chance: random.Random, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FaultProxy]:
    """A proxy before a broker of each transaction version."""
    if request.param == 2:
        yield request.getfixturevalue("fault_proxy")
    else:
        with proxied_v1_broker(tmp_path / "broker", verifying=chance.choice([True, False])) as (_, proxy):
            yield proxy


@_both_ways
def test_a_network_that_is_cut_again_and_again(
    spark: SparkSession, tmp_path: Path, chance: random.Random, proxy: FaultProxy, by_format: bool
):
    def cut() -> None:
        act = chance.choice(["reset", "refuse", "to_broker", "to_client"])
        if act in ("reset", "refuse"):
            getattr(proxy, act)()
        else:
            setattr(proxy, act, chance.choice([Link.HOLD, Link.DROP]))
        time.sleep(chance.uniform(0, 7))
        proxy.heal()

    run_shaken(spark, tmp_path, proxy.address, cut, chance, by_format=by_format)


def test_a_batch_whose_shuffle_files_were_lost_is_written_once(
    spark: SparkSession, tmp_path: Path, local_dir: Path, bootstrap_servers: str, chance: random.Random
):
    """One task reads two shuffle partitions.

    Kafka has its rows of the first one when the second one cannot be fetched.
    """
    name, lost = Topics(bootstrap_servers).create(), tmp_path / "lost"

    def lose_shuffle_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not lost.exists():
            files = list(local_dir.rglob("shuffle_*"))
            lost.write_text(str(len(files)))
            for file in files:
                file.unlink()

    function = exactly_once(topic=name, name=name, **{"bootstrap.servers": bootstrap_servers})
    query = FileQuery(spark, tmp_path, function)
    query.shape = lambda frame: frame.repartition(2).mapInArrow(lose_shuffle_files, "value STRING")
    count = chance.randint(30_000, 50_000)
    query.add(*numbered(0, count))
    query.run()
    assert int(lost.read_text()) > 0
    assert [sink.retries for sink in function.statistics] == [1]
    assert len(read_topic(bootstrap_servers, name, isolation="read_uncommitted")) > count
    assert texts(bootstrap_servers, name) == sorted(numbered(0, count))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "TLS"])
def test_rows_reach_a_secured_broker_from_executors_and_from_the_driver(
    spark: SparkSession, tmp_path: Path, secured: SecuredBroker, mechanism: str
):
    name = Topics(secured.sasl_servers, secured.rdkafka()).create(unique("secured"), partitions=2)
    options = secured.tls_properties() if mechanism == "TLS" else secured.properties("admin", mechanism)
    function = exactly_once(topic=name, name=name, **{f"kafka.{key}": value for key, value in options.items()})
    query = FileQuery(spark, tmp_path, function)
    for size in (2_000, 5, 5):
        query.add(*numbered(0, size))
    query.run()
    expected = sorted([*range(2_000), *range(5), *range(5)])

    def found() -> list[int]:
        records = read_topic(secured.sasl_servers, name, settings=secured.rdkafka())
        return sorted(int(record.value or b"") for record in records)

    wait_for(lambda: len(found()) >= len(expected), PATIENCE)
    assert found() == expected


def test_a_driver_whose_jvm_was_killed_in_mid_write_fails_and_the_next_continues(drivers: Drivers):
    drivers.add(wait=True)
    drivers.add()
    with drivers.start() as driver:
        wait_for(lambda: drivers.is_mid_write() or not driver.running, PATIENCE)
        next(process for process in processes_of(driver) if "java" in process.name()).kill()
        drivers.go_on()
        assert driver.wait(PATIENCE) != 0, driver.output
    drivers.finish()
