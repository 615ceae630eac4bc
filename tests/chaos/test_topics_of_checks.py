"""`fencepost test --bootstrap-servers` leaves the cluster's topics as they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from fencepost.cli.main import cli
from tests.support.checker import read_topic
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique

# Each check kills real workers many times.
pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).parents[2]
FILES = "fencepost.connectors.files.connector.FileSourceConnector"
STREAMS = "tests.conformance.streams.StreamsConnector"
REGIONS = ("north", "south")
STEP = ("-k", "sigkill_before_end_txn")


def names(bootstrap_servers: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap_servers}).list_topics(timeout=60).topics)


@dataclass
class Cluster:
    """A cluster whose topics are compared with its topics at the start."""

    bootstrap_servers: str
    folder: Path
    before: set[str]

    def own_topic(self, name: str, records: int = 100) -> str:
        """Create a user's topic with records in it."""
        Topics(self.bootstrap_servers).create(name, partitions=2)
        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        for number in range(records):
            producer.produce(name, value=f"mine {number}")
        assert producer.flush(60) == 0
        self.before.add(name)
        return name

    def count(self, topic: str) -> int:
        return len(read_topic(self.bootstrap_servers, topic))

    def write(self, connector: str, properties: Mapping[str, str]) -> list[str]:
        """Write the connector's configuration; return the arguments of the command."""
        file = self.folder / "connector.properties"
        lines = {"name": "c", "connector.class": connector, **properties}
        file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        path = f"{self.folder},{ROOT}"
        return ["test", connector, "--config", str(file), "--plugin-path", path,
                "--bootstrap-servers", self.bootstrap_servers]  # fmt: skip

    def check(self, connector: str, properties: Mapping[str, str], *more: str) -> Result:
        return CliRunner().invoke(cli, [*self.write(connector, properties), *more])

    def unchanged(self) -> bool:
        # The brokers create an internal topic (`__`...) with the first transaction.
        return {name for name in names(self.bootstrap_servers) if not name.startswith("__")} == self.before


@pytest.fixture
def cluster(bootstrap_servers: str, tmp_path: Path) -> Cluster:
    before = {name for name in names(bootstrap_servers) if not name.startswith("__")}
    return Cluster(bootstrap_servers, tmp_path, before)


def orders(folder: Path, name: str) -> dict[str, str]:
    """Orders of regions, each to the topic of its region."""
    rows = [f"{number},{REGIONS[number % 2]},{number}.5\n" for number in range(20)]
    (folder / "orders.csv").write_text("id,region,price\n" + "".join(rows))
    return {
        "files": str(folder / "orders.csv"),
        "format": "csv",
        "header": "true",
        "schema": "id INT, region STRING, price DOUBLE",
        "topic": f"{name}-${{region}}",
        "offsets.storage.topic": f"{name}-offsets",
    }


def running_checks(cluster: Cluster) -> subprocess.Popen[bytes]:
    """Start checks that kill workers, in a separate process."""
    arguments = cluster.write(STREAMS, {"topic": unique("left"), "streams": "a,b,c"})
    # A background job of a shell ignores SIGINT, and so do its child processes.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "fencepost", *arguments, "-k", "sigkill"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)


def test_the_whole_suite_writes_to_no_topic_of_the_user(cluster: Cluster) -> None:
    name = unique("orders")
    existing = [cluster.own_topic(f"{name}-{region}") for region in REGIONS]

    told = cluster.check(FILES, orders(cluster.folder, name))

    assert told.exit_code == 0, told.output
    assert told.output.count("survives_sigkill") == 7
    assert [cluster.count(topic) for topic in existing] == [100, 100]
    wait_for(cluster.unchanged, what="the topics as they were")


def test_dead_letters_go_to_a_topic_of_the_check(cluster: Cluster) -> None:
    name = unique("orders")
    refused = cluster.own_topic(f"{name}-refused")
    properties = orders(cluster.folder, name)
    with (cluster.folder / "orders.csv").open("a") as file:
        file.write("20,north,not a price\n")
    dead_letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": refused}

    told = cluster.check(FILES, {**properties, **dead_letters}, *STEP)

    assert told.exit_code == 0, told.output
    assert "1 passed" in told.output
    assert cluster.count(refused) == 100
    wait_for(cluster.unchanged, what="the topics as they were")


@pytest.mark.parametrize("creation", ["by-brokers", "by-the-connector"])
def test_a_fixed_topic_is_written_to_under_another_name(cluster: Cluster, creation: str) -> None:
    topic = cluster.own_topic(unique("mine"))
    created = {"partitions": "3", "replication.factor": "1"} if creation == "by-the-connector" else {}
    properties = {f"topic.creation.default.{name}": value for name, value in created.items()}

    told = cluster.check(STREAMS, {"topic": topic, "streams": "a,b,c", **properties}, *STEP)

    assert told.exit_code == 0, told.output
    assert "1 passed" in told.output
    assert cluster.count(topic) == 100
    wait_for(cluster.unchanged, what="the topics as they were")


def test_routed_records_are_compared_and_written_elsewhere(cluster: Cluster) -> None:
    """Spark's executors write this topic."""
    topic = cluster.own_topic(unique("routed"))
    router = {
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": topic,
    }
    told = cluster.check(FILES, orders(cluster.folder, unique("unused")) | router, *STEP)

    assert told.exit_code == 0, told.output
    assert "1 passed" in told.output
    assert cluster.count(topic) == 100
    wait_for(cluster.unchanged, what="the topics as they were")


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"producer.override.bootstrap.servers": "other:9092"}, "names brokers of its own"),
        ({"topic": "long" * 61}, "cannot be redirected"),
        ({"topic": "__consumer_offsets"}, "in which brokers keep state"),
    ],
)
def test_a_topic_that_cannot_be_redirected_is_refused(
    cluster: Cluster, properties: Mapping[str, str], reason: str
) -> None:
    told = cluster.check(STREAMS, {"topic": unique("other"), "streams": "a,b,c", **properties}, *STEP)

    assert told.exit_code != 0
    assert reason in f"{told.output} {told.exception}"
    wait_for(cluster.unchanged, what="the topics as they were")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_checks_that_are_interrupted_leave_no_topics(cluster: Cluster, ending: signal.Signals) -> None:
    with running_checks(cluster) as running:
        wait_for(lambda: not cluster.unchanged(), what="topics of the checks")
        os.kill(running.pid, ending)
        code = running.wait(120)

    assert code == 130
    wait_for(cluster.unchanged, what="the topics as they were")


@pytest.mark.parametrize("before", [0, 2])
def test_a_topic_whose_creation_is_in_flight_at_an_interruption_is_deleted(
    cluster: Cluster, fault_proxy: FaultProxy, before: int
) -> None:
    """Two of the worker's topics are created before the records' topic."""
    creation = fault_proxy.on_request(ApiKey.CREATE_TOPICS, Act.HOLD, skip=before)
    with running_checks(replace(cluster, bootstrap_servers=fault_proxy.address)) as running:
        creation.wait()
        os.kill(running.pid, signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(8)
        creation.release()
        code = running.wait(120)

    assert code == 130
    wait_for(cluster.unchanged, what="the topics as they were")
