"""The demo's check detects lost and duplicate records, and knows which transactions were committed and aborted."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from fencepost.cli.demo.check import TopicCounter, check
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.transaction_markers import read_transaction_markers
from fencepost.kafka.producer.transactional import TransactionalProducer
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique
from tests.support.writing import open_producer, producer_config, write_in_transaction

HEADER = "year,dep_time,carrier\n"


def _flights(count: int) -> list[bytes]:
    return [json.dumps({"year": 2013, "dep_time": None, "carrier": f"c{n}"}).encode() for n in range(count)]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv"
    path.write_text(HEADER + "".join(f"2013,NA,c{n}\n" for n in range(10)))
    return path


@pytest.fixture
def offsets(topics: Topics) -> str:
    return topics.create()


def test_lost_and_duplicated_rows_are_found(bootstrap_servers: str, topic: str, offsets: str, csv: Path):
    with open_producer(producer_config(bootstrap_servers), unique("demo")) as producer:
        producer.begin_transaction()
        write_in_transaction(producer, topic, _flights(9) + _flights(2))
        producer.commit_transaction()

    findings = check(bootstrap_servers, topic, offsets, csv, kills=2, seconds=1.0)

    assert (findings.expected, findings.found) == (10, 11)
    assert (findings.lost, findings.duplicates) == (1, 2)
    assert not findings.exactly_once


def test_a_topic_with_each_row_once_passes(bootstrap_servers: str, topic: str, offsets: str, csv: Path):
    with open_producer(producer_config(bootstrap_servers), unique("demo")) as producer:
        _aborted_then_committed(producer, topic, offsets)

    findings = check(bootstrap_servers, topic, offsets, csv, kills=0, seconds=1.0)

    assert findings.exactly_once
    assert (findings.committed, findings.aborted) == (2, 1)


def _aborted_then_committed(producer: TransactionalProducer, topic: str, offsets: str) -> None:
    producer.begin_transaction()
    write_in_transaction(producer, topic, _flights(10))
    producer.abort_transaction()
    for part in (_flights(10)[:4], _flights(10)[4:]):
        producer.begin_transaction()
        write_in_transaction(producer, topic, part)
        write_in_transaction(producer, offsets, [b"{}"])
        producer.commit_transaction()


def test_markers_report_each_transaction_once_per_partition(bootstrap_servers: str, topics: Topics, offsets: str):
    topic = topics.create(partitions=2)
    with open_producer(producer_config(bootstrap_servers), unique("markers")) as producer:
        for partition, ending in ((0, "commit"), (1, "abort"), (1, "commit")):
            producer.begin_transaction()
            write_in_transaction(producer, topic, [b"v"], partition=partition)
            getattr(producer, f"{ending}_transaction")()
    client = ClientConfig((bootstrap_servers,))

    # The broker writes the transaction markers after the coordinator has answered the commit.
    markers = wait_for(lambda: found if len(found := read_transaction_markers(client, topic)) == 3 else None)

    assert [(marker.partition, marker.committed) for marker in markers] == [(0, True), (1, False), (1, True)]
    assert len({marker.transaction for marker in markers}) == 3
    assert read_transaction_markers(client, offsets) == []


def test_the_counter_sees_commits_and_whether_more_is_pending(bootstrap_servers: str, topic: str, offsets: str):
    with (
        closing(TransactionalProducer(producer_config(bootstrap_servers), unique("demo"))) as producer,
        TopicCounter(bootstrap_servers, topic, offsets) as counter,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        write_in_transaction(producer, topic, _flights(10))
        write_in_transaction(producer, offsets, [b"{}"])
        counter.advance(timeout_s=0.1)
        wait_for(lambda: counter.ends() == (0, 10))
        assert (counter.records, counter.transactions) == (0, 0)
        producer.commit_transaction()
        wait_for(lambda: not counter.advance(timeout_s=0.1) and (counter.records, counter.transactions) == (10, 1))
        wait_for(lambda: counter.ends() == (11, 11), what="ten records and the marker")
