"""`fencepost tail`, on records that confluent-kafka wrote."""

from __future__ import annotations

import json
import signal
import struct
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from crc32c import crc32c

from fencepost.cli import main
from fencepost.cli.common import cluster_options
from fencepost.cli.topics import tail as tail_module
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.ports import free_ports
from fencepost.kafka.records.varints import signed_varint
from tests.support.confluent import transactional_producer
from tests.support.processes import Process, wait_for
from tests.support.raw_kafka import RawKafka
from tests.support.topics import Topics, unique

_SECONDS = 60

Tail = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tail(bootstrap_servers: str, topic: str, capsys: pytest.CaptureFixture[str]) -> Tail:
    """Runs `fencepost tail` for the topic; returns its exit code and its output."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main.run(["tail", topic, "--bootstrap-server", bootstrap_servers, *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def producer(bootstrap_servers: str) -> Producer:
    """A producer in a transaction. Its transactional id has characters that shells and terminals would interpret."""
    producer = transactional_producer(bootstrap_servers, unique("tailed") + "; x\x1b[2J")
    producer.begin_transaction()
    return producer


def _send(producer: Producer, topic: str, numbers: range, *, partition: int = 0, start_ms: int = 1_000) -> None:
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=start_ms + number)
    assert producer.flush(_SECONDS) == 0


def _commit(producer: Producer) -> None:
    producer.commit_transaction(_SECONDS)
    producer.begin_transaction()


def _shown(tail: Tail, *arguments: str) -> list[dict[str, Any]]:
    code, out, _ = tail("-o", "json", *arguments)
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def _values(shown: list[dict[str, Any]]) -> list[Any]:
    return [record["value"] for record in shown]


def test_a_record_is_shown_with_all_that_it_holds(tail: Tail, producer: Producer, topic: str) -> None:
    producer.produce(
        topic, b'{"a":1}', key=b"k\x1b[2J", partition=0, timestamp=1234, headers=[("h", b"1"), ("none", None)]
    )
    producer.produce(topic, None, key=b"gone", partition=0, timestamp=1235)
    _commit(producer)

    first, tombstone = _shown(tail)
    lines = tail()[1].splitlines()

    assert first == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": 1234,
        "key": "k\x1b[2J",
        "value": {"a": 1},
        "headers": [{"name": "h", "value": 1}, {"name": "none", "value": None}],
    }
    assert (tombstone["key"], tombstone["value"]) == ("gone", None)
    assert lines[0].endswith('0@0  k\\x1b[2J  {"a": 1}  [h=1, none=null]')
    assert lines[1].endswith("0@1  gone  null")


def test_the_last_committed_records_are_shown_and_the_open_transaction_is_named(
    tail: Tail, producer: Producer, topic: str
) -> None:
    _send(producer, topic, range(20))
    _commit(producer)
    _send(producer, topic, range(100, 150))
    producer.abort_transaction(_SECONDS)
    producer.begin_transaction()
    _send(producer, topic, range(20, 23))

    code, out, err = tail("-o", "json", "--from", "-5")

    assert code == 0
    assert [json.loads(line)["value"] for line in out.splitlines()] == [15, 16, 17, 18, 19]
    assert f"3 offsets of {topic} (partition 0) hidden by the open transaction of tailed" in err
    assert "fencepost transactions abort 'tailed" in err
    assert "; x\\x1b[2J'" in err
    assert "\x1b" not in err


def test_tail_starts_at_the_beginning_an_offset_or_a_time(tail: Tail, producer: Producer, topic: str) -> None:
    _send(producer, topic, range(30))
    _commit(producer)

    assert _values(_shown(tail, "--from", "beginning")) == list(range(30))
    assert _values(_shown(tail, "--from", "27")) == [27, 28, 29]
    assert _values(_shown(tail, "--from", "1970-01-01T00:00:01.025+00:00")) == [25, 26, 27, 28, 29]
    assert _values(_shown(tail, "--from", "2999-01-01")) == []
    assert _values(_shown(tail, "--from", "end")) == []
    assert _values(_shown(tail, "--from", "1000")) == []
    assert len(_shown(tail)) == 10


def test_the_last_records_of_several_partitions_come_in_the_order_of_time(
    bootstrap_servers: str, topics: Topics, producer: Producer, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = topics.create(partitions=3)
    for partition in range(3):
        _send(producer, topic, range(partition, 30, 3), partition=partition)
    _commit(producer)

    code = main.run(["tail", topic, "--bootstrap-server", bootstrap_servers, "-o", "json", "--from", "-7"])

    assert code == 0
    assert [json.loads(line)["value"] for line in capsys.readouterr().out.splitlines()] == list(range(23, 30))


def test_bytes_that_the_converter_cannot_have_written_are_shown(tail: Tail, producer: Producer, topic: str) -> None:
    producer.produce(topic, (7).to_bytes(8, "big"), partition=0)
    producer.produce(topic, b"seven", partition=0)
    _commit(producer)

    shown = _shown(tail, "--value-converter", "org.apache.kafka.connect.converters.LongConverter")

    assert _values(shown) == [7, {"base64": "c2V2ZW4=", "error": "5 bytes, not 8"}]


def test_tail_suggests_a_converter_once_for_data_that_is_not_text(tail: Tail, producer: Producer, topic: str) -> None:
    for number in (7, 8):
        producer.produce(topic, number.to_bytes(8, "big"), key=b"\0\0\0\0\1x", partition=0)
    _commit(producer)

    code, out, err = tail("-o", "json", "--from", "beginning")

    assert code == 0
    assert [json.loads(line)["value"] for line in out.splitlines()] == [
        {"base64": "AAAAAAAAAAc="},
        {"base64": "AAAAAAAAAAg="},
    ]
    assert sorted(err.splitlines()) == [
        "A key is neither JSON nor text: --schema-registry-url URL decodes it, depending on the converter that wrote it",
        (
            "A value is neither JSON nor text: --value-converter LongConverter or --value-converter DoubleConverter or "
            "--schema-registry-url URL decodes it, depending on the converter that wrote it"
        ),
    ]
    assert tail("--value-converter", "LongConverter", "--key-converter", "ByteArrayConverter")[2] == ""


def test_a_topic_is_followed_and_a_long_transaction_named(
    bootstrap_servers: str, producer: Producer, topic: str, tmp_path: Path
) -> None:
    _send(producer, topic, range(2))
    _commit(producer)
    arguments = ("tail", topic, "--bootstrap-server", bootstrap_servers, "--follow", "-o", "json")
    with Process.fencepost(*arguments, log_file=tmp_path / "out") as process:
        process.wait_for_output('"value": 1,')
        _send(producer, topic, range(2, 4))
        process.wait_for_output("hidden by the open transaction of tailed")
        assert '"value": 2,' not in process.output
        _commit(producer)
        process.wait_for_output('"value": 3,')
        process.signal(signal.SIGINT)
        assert process.wait() == 130
    assert "Traceback" not in process.output


def test_a_closed_pipe_ends_tail_without_an_error(
    bootstrap_servers: str, producer: Producer, topic: str, tmp_path: Path
) -> None:
    _send(producer, topic, range(20_000))
    _commit(producer)
    shell = (
        f"set -o pipefail; {sys.executable} -m fencepost tail {topic} --bootstrap-server {bootstrap_servers} "
        "--from beginning -o json | head -n 1"
    )
    with Process(["bash", "-c", shell], tmp_path / "out") as process:
        assert process.wait() == 0

    (line,) = process.output.splitlines()
    assert json.loads(line)["value"] == 0


@pytest.mark.parametrize("where", ["yesterday", "", "--5"])
def test_an_invalid_start_position_is_a_usage_error(tail: Tail, where: str) -> None:
    code, _, err = tail("--from", where)

    assert code == 2
    assert "is not a place to begin: give beginning, end, -N" in err


def test_a_topic_that_does_not_exist_is_looked_for_and_refused(
    bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = unique("missing")

    assert main.run(["tail", missing, "--bootstrap-server", bootstrap_servers]) == 1
    at_once, line = capsys.readouterr().err.splitlines()
    assert at_once.startswith(f"The brokers do not know {missing}")
    assert f"Topic {missing} does not exist on this cluster: check the name" in line
    assert "topic.creation" not in line


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("999", "{topic} has no committed record at offset 999 or after it: it ends at 4 in partition 0"),
        ("2999-01-01", "{topic} has no committed record of that time or later"),
        ("end", "--from end shows only what is written later"),
    ],
)
def test_a_start_position_without_later_records_is_reported(
    tail: Tail, producer: Producer, topic: str, where: str, told: str
) -> None:
    _send(producer, topic, range(3))
    producer.commit_transaction(_SECONDS)

    code, out, err = tail("--from", where)

    assert (code, out) == (0, "")
    assert told.format(topic=topic) in err
    assert "-f waits for new ones" in err


def test_an_empty_topic_is_reported_as_empty(tail: Tail, topic: str) -> None:
    assert f"{topic} has no committed records" in tail()[2]


@pytest.mark.parametrize(
    "command", [["tail", "t"], ["verify", "t", "--expect-count", "1"], ["transactions", "list"]], ids=lambda c: c[0]
)
def test_brokers_that_do_not_answer_are_an_error_soon(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_options, "_ANSWER_MS", 200)
    nobody = f"127.0.0.1:{free_ports(1)[0]}"

    assert main.run([*command, "--bootstrap-server", nobody]) == 1

    assert f"No Kafka broker answers at bootstrap.servers={nobody}" in capsys.readouterr().err


def test_following_ends_when_the_brokers_stay_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "_PATIENCE_SECONDS", 0.5)
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        plain = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        plain.produce("followed", b"one")
        assert plain.flush(_SECONDS) == 0
        arguments = ["tail", "followed", "--bootstrap-server", broker.bootstrap_servers, "--follow"]
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(main.run, arguments)
            wait_for(lambda: "one" in capsys.readouterr().out, what="the record is shown")
            # Requests before the first poll have longer timeouts.
            plain.produce("followed", b"two")
            assert plain.flush(_SECONDS) == 0
            wait_for(lambda: "two" in capsys.readouterr().out, what="the topic is followed")
            broker.nodes[0].kill()

            assert running.result(5 * _SECONDS) == 1

    assert "followed cannot be read" in capsys.readouterr().err


def test_nothing_is_lost_or_doubled_between_reading_and_following(
    bootstrap_servers: str, producer: Producer, topic: str, tmp_path: Path
) -> None:
    # stderr is left out: it has messages about an empty topic or an open transaction.
    shell = (
        f"exec {sys.executable} -m fencepost tail {topic} --bootstrap-server {bootstrap_servers} "
        f"-f --from beginning -o json 2> {tmp_path}/notes"
    )
    with Process(["bash", "-c", shell], tmp_path / "out") as process:
        for turn in range(20):
            _send(producer, topic, range(turn * 100, turn * 100 + 100))
            _commit(producer)
        wait_for(lambda: process.output.count('"value": ') >= 2_000, what="all are shown")
        process.signal(signal.SIGTERM)
        process.wait()
    assert [json.loads(line)["value"] for line in process.output.splitlines()] == list(range(2_000))


def test_a_record_that_grows_when_decompressed_is_named_and_the_others_are_shown(
    tail: Tail, topic: str, bootstrap_servers: str
) -> None:
    size = 100 * 1024 * 1024
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "compression.type": "zstd"}
    producer = Producer({**settings, "message.max.bytes": 2 * size})
    for value in (b"older", b"a" * size, b"newer"):
        producer.produce(topic, value, partition=0)
        assert producer.flush(_SECONDS) == 0
    code, out, err = tail()
    assert code == 0
    assert [line.split()[-1] for line in out.splitlines()] == ["older", "newer"]
    assert f"Offset 1 of {topic}-0 not shown: the batch takes more than 64 MiB once it is decompressed" in err
    assert tail("--from", "1", "-o", "json")[1].count("newer") == 1


def test_a_record_that_cannot_be_read_is_named_and_the_others_are_shown(
    tail: Tail, topic: str, bootstrap_servers: str
) -> None:
    with closing(RawKafka(bootstrap_servers)) as broker:
        for headers in (b"", b"\2\xff\1", b""):
            assert broker.produce(topic, {0: _batch(headers)})[0][0] == 0
    code, out, err = tail()
    assert (code, len(out.splitlines())) == (0, 2)
    assert f"Offset 1 of {topic}-0 not shown: the batch cannot be read" in err


def _batch(headers: bytes) -> bytes:
    """A batch of one record, with at most one header."""
    record = bytes(3) + signed_varint(-1) + signed_varint(1) + b"x" + signed_varint(bool(headers)) + headers
    content = struct.pack(">hiqqqhii", 0, 0, 1_000, 1_000, -1, -1, -1, 1) + signed_varint(len(record)) + record
    return struct.pack(">qiibI", 0, len(content) + 9, -1, 2, crc32c(content)) + content
