"""`fencepost transactions` and transactions that another client left open."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from fencepost.cli import main
from fencepost.cli.common.tables import shown_time
from fencepost.kafka.consumer.read_to_end import TopicReadTimeoutError, read_to_end
from tests.support.checker import read_topic, values
from tests.support.confluent import transactional_producer
from tests.support.hanging import hang
from tests.support.topics import unique
from tests.support.writing import open_producer, producer_config, write_in_transaction

_SECONDS = 60

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(bootstrap_servers: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `fencepost transactions` for the broker; returns its exit code and its output."""

    def run(command: str, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main.run(["transactions", command, "--bootstrap-server", bootstrap_servers, *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def group() -> str:
    return unique("group")


@pytest.fixture
def lingering(bootstrap_servers: str, topic: str, group: str) -> Producer:
    """A producer with the transactional id of a task of the connector `orders`, which leaves its transaction open."""
    producer = transactional_producer(bootstrap_servers, f"{group}-orders-0")
    producer.begin_transaction()
    producer.produce(topic, b"lingers", partition=0)
    assert producer.flush(_SECONDS) == 0
    return producer


def _listed(run: Run, *arguments: str) -> list[dict[str, Any]]:
    code, out, _ = run("list", "-o", "json", *arguments)
    assert code == 0
    found: list[dict[str, Any]] = json.loads(out)
    return found


@pytest.mark.usefixtures("lingering")
def test_an_open_transaction_is_listed_with_its_owner_and_partitions(run: Run, group: str, topic: str) -> None:
    (found,) = _listed(run, "--group", group)
    code, table, _ = run("list", "--group", group)

    assert found["transactional_id"] == f"{group}-orders-0"
    assert 0 < time.time() * 1000 - found["open_since"] < found["timeout_ms"]
    assert found["state"] == "Ongoing"
    assert found["partitions"] == [{"topic": topic, "partition": 0}]
    assert code == 0
    (row,) = [line for line in table.splitlines() if f"{group}-orders-0" in line]
    cells = [cell.strip() for cell in row.strip("│ ").split("│")]
    producer = [str(found["producer_id"]), str(found["producer_epoch"])]
    assert cells[1:6] == [*producer, "Ongoing", str(found["coordinator"]), shown_time(found["open_since"])]
    assert cells[-1] == f"{topic}-0"


@pytest.mark.usefixtures("lingering")
def test_only_old_transactions_of_the_group_are_listed(run: Run, group: str) -> None:
    assert _listed(run, "--group", unique("group")) == []
    assert _listed(run, "--group", group, "--older-than", "3600") == []
    assert len(_listed(run, "--group", group, "--older-than", "0")) == 1


def test_an_aborted_transaction_is_removed_and_its_producer_fenced(
    run: Run, lingering: Producer, group: str, bootstrap_servers: str, topic: str
) -> None:
    name = f"{group}-orders-0"

    code, out, _ = run("abort", name)

    assert code == 0
    assert out.startswith(f"Aborted the transaction of {name} (producer id ")
    assert _listed(run, "--group", group) == []
    with pytest.raises(KafkaException):
        lingering.commit_transaction(_SECONDS)
    assert values(read_topic(bootstrap_servers, topic)) == []
    code, _, err = run("abort", name)
    assert code == 1
    assert f"The transactional id {name} has no open transaction" in err


def test_a_transaction_that_no_coordinator_knows_of_is_aborted_in_its_partition(
    run: Run, bootstrap_servers: str, topic: str
) -> None:
    config = producer_config(bootstrap_servers)
    producer_id = hang(config, topic, b"hangs")
    with open_producer(config, unique("task")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, [b"waits"])
        producer.commit_transaction()

    with pytest.raises(TopicReadTimeoutError) as waiting:
        list(read_to_end(config.client, topic, timeout_ms=500))
    assert f"(producer id {producer_id}) that began at offset 0 is still open" in str(waiting.value)
    where = ("--topic", topic, "--partition", "0", "--start-offset")
    assert " ".join(where) in str(waiting.value)

    code, out, _ = run("abort", *where, "0", "-o", "json")

    assert code == 0
    aborted = {"topic": topic, "partition": 0, "start_offset": 0, "producer_id": producer_id, "producer_epoch": 0}
    assert json.loads(out) == aborted
    assert values(read_topic(bootstrap_servers, topic)) == [b"waits"]
    code, _, err = run("abort", *where, "0")
    assert code == 1
    assert f"No transaction is open in {topic}-0 that began at offset 0: none is open there at all" in err


@pytest.mark.usefixtures("lingering")
def test_a_transaction_with_a_coordinator_is_not_aborted_behind_its_back(run: Run, group: str, topic: str) -> None:
    where = ("--topic", topic, "--start-offset")

    code, _, err = run("abort", *where, "0", "--partition", "0")
    assert code == 1
    assert f"To abort it at once: fencepost transactions abort {group}-orders-0" in err
    code, _, err = run("abort", *where, "7", "--partition", "0")
    assert code == 1
    assert f"No transaction is open in {topic}-0 that began at offset 7: those that are open began at 0" in err
    code, _, err = run("abort", *where, "0", "--partition", "1")
    assert code == 1
    assert f"Topic {topic} has no partition 1" in err
    assert len(_listed(run, "--group", group)) == 1


@pytest.mark.parametrize("arguments", [(), ("--topic", "t"), ("orders-0", "--topic", "t")])
def test_a_transaction_to_abort_is_named_by_id_or_by_position(run: Run, arguments: tuple[str, ...]) -> None:
    code, _, err = run("abort", *arguments)

    assert code == 2
    assert "Give a TRANSACTIONAL_ID, or --topic, --partition and --start-offset" in err


def test_the_brokers_may_be_named_in_a_file_of_client_settings(
    bootstrap_servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={bootstrap_servers}\nsecurity.protocol=PLAINTEXT\n")

    group = unique("group")
    assert main.run(["transactions", "list", "--command-config", str(file), "--group", group]) == 0
    assert capsys.readouterr().out == f"No open transactions of group {group}.\n"


def test_transactions_without_brokers_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["transactions", "list"]) == 2
    assert "--bootstrap-server" in capsys.readouterr().err
