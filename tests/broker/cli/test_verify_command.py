"""`fencepost verify` finds faults, which confluent-kafka makes here."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from fencepost.cli import main
from tests.support.confluent import transactional_producer
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique

_SECONDS = 60

Verify = Callable[..., tuple[int, str, str]]

NUMBERED = ("--sequence", "value.seq", "--source-partition", "key", "--first", "1")


@pytest.fixture
def verify(bootstrap_servers: str, topic: str, capsys: pytest.CaptureFixture[str]) -> Verify:
    """Runs `fencepost verify` for the topic; returns its exit code and its output."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main.run(["verify", topic, "--bootstrap-server", bootstrap_servers, *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def producer(bootstrap_servers: str) -> Iterator[Producer]:
    """A transactional producer in a transaction."""
    producer = transactional_producer(bootstrap_servers, unique("verify"))
    producer.begin_transaction()
    return producer


def _produce(producer: Producer, topic: str, source_partition: str, *numbers: int) -> None:
    for number in numbers:
        producer.produce(topic, json.dumps({"seq": number}), key=source_partition, partition=0)


def _commit(producer: Producer) -> None:
    producer.commit_transaction(_SECONDS)
    producer.begin_transaction()


def _report(verify: Verify, *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = verify(*arguments, "-o", "json")
    return code, json.loads(out)


def test_a_topic_with_every_number_once_has_no_errors(
    verify: Verify, producer: Producer, topic: str, topics: Topics
) -> None:
    offsets = topics.create()
    _produce(producer, topic, "a", 1, 2)
    assert producer.flush(_SECONDS) == 0
    producer.abort_transaction(_SECONDS)
    producer.begin_transaction()
    _produce(producer, topic, "a", 1, 2, 3)
    _produce(producer, topic, "b", 1)
    for name, number in (("a", 2), ("a", 3), ("b", 1)):
        producer.produce(offsets, json.dumps({"saved": number}), key=json.dumps(["orders", {"task": name}]))
    producer.produce(offsets, json.dumps({"saved": 9}), key=json.dumps(["other", {"task": "a"}]))
    _commit(producer)
    asked = (*NUMBERED, "--connector", "orders", "--offsets-topic", offsets, "--expect-count", "4")

    code, report = _report(verify, *asked)
    table = verify(*asked)[1]

    assert code == 0
    assert report["sound"]
    assert (report["records"], report["aborted"], report["undecided"]) == (4, 2, 0)
    assert report["open_transactions"] == []
    assert [(found["source_partition"], found["last"]) for found in report["numbers"]["partitions"]] == [
        ("a", 3),
        ("b", 1),
    ]
    assert table.rstrip().endswith("\nSound.")


def test_lost_duplicated_and_swapped_records_are_reported(
    verify: Verify, producer: Producer, topic: str, topics: Topics
) -> None:
    offsets = topics.create()
    _produce(producer, topic, "lost", 1, 2, 4)
    _produce(producer, topic, "doubled", 1, 2, 2)
    _produce(producer, topic, "swapped", 2, 1)
    producer.produce(topic, b"no number", key="odd", partition=0)
    for name, number in (("lost", 4), ("doubled", 3), ("swapped", 2)):
        producer.produce(offsets, json.dumps({"saved": number}), key=json.dumps(["orders", {"task": name}]))
    _commit(producer)

    code, report = _report(verify, *NUMBERED, "--connector", "orders", "--offsets-topic", offsets)
    table = verify(*NUMBERED)[1]

    assert code == 1
    found = {each["source_partition"]: each for each in report["numbers"]["partitions"]}
    assert found["lost"] | {"lost": 1, "missing": [[3, 3]], "duplicates": 0, "out_of_order": 0} == found["lost"]
    assert found["doubled"] | {"lost": 0, "duplicates": 1, "out_of_order": 0} == found["doubled"]
    assert found["swapped"] | {"lost": 0, "duplicates": 0, "out_of_order": 1} == found["swapped"]
    assert report["numbers"]["first_skipped"] == f"{topic}-0@8"
    assert report["offset_mismatches"] == [{"source_partition": "doubled", "visible": 2, "committed": "3"}]
    assert all(name in table for name in found)
    assert table.rstrip().endswith("\nNOT sound.")


def test_records_behind_an_open_transaction_are_reported(verify: Verify, producer: Producer, topic: str) -> None:
    _produce(producer, topic, "a", 1)
    _commit(producer)
    _produce(producer, topic, "a", 2, 3)
    assert producer.flush(_SECONDS) == 0

    report = wait_for(lambda: found if (found := _report(verify, *NUMBERED)[1])["undecided"] == 2 else None)

    assert report["records"] == 1
    assert len(report["open_transactions"]) == 1
    assert verify("--expect-count", "3")[0] == 1
    producer.abort_transaction(_SECONDS)
    assert _report(verify, "--expect-count", "1")[1]["aborted"] == 2


def test_records_behind_an_open_transaction_are_counted_after_a_deletion(
    verify: Verify, producer: Producer, topic: str, bootstrap_servers: str
) -> None:
    _produce(producer, topic, "a", 1, 2, 3)
    _commit(producer)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, OFFSET_END)]).values()
    deleted.result(_SECONDS)
    _produce(producer, topic, "a", 4, 5)
    assert producer.flush(_SECONDS) == 0

    report = wait_for(lambda: found if (found := _report(verify, "--expect-count", "0")[1])["undecided"] else None)

    assert (report["records"], report["undecided"]) == (0, 2)


def test_the_rows_and_lines_of_a_file_are_compared(
    verify: Verify, producer: Producer, topic: str, tmp_path: Path
) -> None:
    csv, lines = tmp_path / "rows.csv", tmp_path / "rows.txt"
    csv.write_text("id,name\n1,a\n2,-\n")
    lines.write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": null}\n')
    for line in lines.read_text().splitlines():
        producer.produce(topic, line, partition=0)
    _commit(producer)

    assert verify("--source", str(csv), "--null-value", "-")[0] == 0
    assert verify("--source", str(lines))[0] == 0
    lines.write_text(lines.read_text() + "one more\n")
    code, report = _report(verify, "--source", str(lines))
    assert code == 1
    assert report["rows"] == {
        "expected": 3, "found": 2, "lost": 1, "duplicates": 0, "unfinished": False, "refused": 0, "unlike": None,
    }  # fmt: skip


def test_good_rows_and_dead_letters_are_counted_together(
    verify: Verify, producer: Producer, topic: str, topics: Topics, tmp_path: Path
) -> None:
    letters, csv = topics.create(), tmp_path / "rows.csv"
    csv.write_text("id,at\n1,2024-02-29 12:00:00\nx,2024-02-29\n3\n")
    producer.produce(topic, b'{"id": 1, "at": 1709208000000}', partition=0)
    for bad in (b"x,2024-02-29", b"3"):
        producer.produce(letters, bad, partition=0)
    _commit(producer)
    asked = ("--source", str(csv), "--expect-count", "3")

    code, report = _report(verify, *asked, "--dead-letter-topic", letters)

    assert code == 0
    assert (report["records"], report["dead_letters"], report["expected_records"]) == (1, 2, 3)
    assert (report["rows"]["found"], report["rows"]["refused"]) == (3, 2)
    assert "dead letters" in verify(*asked, "--dead-letter-topic", letters)[1]
    assert _report(verify, *asked)[1]["rows"]["lost"] == 2


def test_a_dead_letter_queue_that_does_not_exist_is_empty_and_named(
    verify: Verify, producer: Producer, topic: str
) -> None:
    producer.produce(topic, b"one", partition=0)
    _commit(producer)
    missing = unique("missing")

    code, out, err = verify("--expect-count", "1", "--dead-letter-topic", missing)

    assert (code, "Sound." in out) == (0, True)
    assert f"Topic {missing} does not exist: it counts as empty" in err


def test_rows_that_no_record_is_equal_to_are_shown_with_the_first_of_both(
    verify: Verify, producer: Producer, topic: str, tmp_path: Path
) -> None:
    csv = tmp_path / "rows.csv"
    csv.write_text("id,at\n1,29/02/2024\n")
    producer.produce(topic, b'{"id": 1, "at": 1709208000000}', partition=0)
    _commit(producer)

    code, out, _ = verify("--source", str(csv))

    assert code == 1
    assert "No record is equal to a row of the source at all" in out
    assert "the first record: 1 | 1709208000000\n  the first row:    1 | 29/02/2024" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--sequence", "value.nosuch"), "has value.nosuch, which --sequence names: the first one, at offset 0 of"),
        (
            ("--sequence", "value.seq", "--source-partition", "header.shop"),
            "has header.shop, which --source-partition names",
        ),
    ],
)
def test_a_field_that_no_record_has_is_named(
    verify: Verify, producer: Producer, topic: str, arguments: tuple[str, ...], told: str
) -> None:
    _produce(producer, topic, "a", 1, 2)
    _commit(producer)

    code, _, err = verify(*arguments)

    assert code == 1
    assert f"No record of {topic} {told}" in err
    assert "value.seq" in err or "no field in its header" in err


def test_a_missing_topic_is_named(bootstrap_servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    missing = unique("missing")

    assert main.run(["verify", missing, "--bootstrap-server", bootstrap_servers, "--expect-count", "1"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"Topic {missing} does not exist on this cluster" in line
    assert "topic.creation" not in line


def test_a_transaction_that_ends_during_the_check_is_not_reported_as_open(
    verify: Verify, producer: Producer, topic: str, tmp_path: Path
) -> None:
    producer.produce(topic, b"one", partition=0)
    _commit(producer)
    producer.produce(topic, b"two", partition=0)
    assert producer.flush(_SECONDS) == 0
    # `fencepost verify` reads the source after the topic.
    source = tmp_path / "lines"
    os.mkfifo(source)

    def end_and_begin() -> None:
        with source.open("wb") as pipe:
            _commit(producer)
            producer.produce(topic, b"three", partition=0)
            producer.flush(_SECONDS)
            pipe.write(b"one\ntwo")

    thread = threading.Thread(target=end_and_begin, daemon=True)
    thread.start()
    code, report = _report(verify, "--source", str(source))
    thread.join(_SECONDS)

    assert code == 0
    assert report["rows"] == {
        "expected": 1, "found": 1, "lost": 0, "duplicates": 0, "unfinished": True, "refused": 0, "unlike": None,
    }  # fmt: skip
    assert report["open_transactions"] == []
    assert report["undecided"] == 1


def test_a_second_source_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file in files:
        file.write_text("n\n1\n")
    given = [text for file in files for text in ("--source", str(file))]
    assert main.run(["verify", "t", "--bootstrap-server", "localhost:1", *given]) == 2
    assert "give one file that has the rows of all 2" in capsys.readouterr().err
