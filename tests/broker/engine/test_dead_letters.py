"""Refused records go to a dead letter topic in the same transaction: no record that was read is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from fencepost import SourceRecord
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.source_write import SMALL_BATCH
from fencepost.runtime.state import State
from tests.broker.engine.test_error_handling import TRANSFORM, PickyConverter, converter
from tests.support.checker import Record, read_offsets, read_topic
from tests.support.sequence_source import seqs
from tests.support.task_runner import TaskRunner, wait_for_state
from tests.support.topics import Topics, unique

ROWS = 60
BAD = (0, 17, 18, 59)
PREFIX = "__connect.errors."


@pytest.fixture(scope="module")
def runner(broker: EmbeddedBroker) -> Iterator[TaskRunner]:
    json_values = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    schemaless = {"value.converter.schemas.enable": "false", "spark.master": "local[2]"}
    with TaskRunner(broker.bootstrap_servers, json_values | schemaless) as runner:
        yield runner


def told(record: Record) -> dict[str, str]:
    """The headers of a dead letter, without their prefix."""
    return {name.removeprefix(PREFIX): (value or b"").decode() for name, value in record.headers}


def run_to_end(runner: TaskRunner, config: Mapping[str, str]) -> None:
    task = runner.run_to_end(config)
    assert task.state is State.STOPPED, task.error


@dataclass(frozen=True)
class Case:
    """A file, and the properties that decide how the engine writes it: in the worker, in a Spark job, or by Arrow."""

    form: str = "csv"
    large: bool = False
    config: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        padding = "p" * (SMALL_BATCH // ROWS + 100 if self.large else 10)
        return [f"bad {n}" if n in BAD else self._good(n, padding) for n in range(ROWS)]

    def _good(self, n: int, padding: str) -> str:
        return json.dumps({"n": n, "pad": padding}) if self.form == "jsonl" else f"{n},{padding}"


CASES = {
    "worker": Case(),
    "executors": Case(large=True),
    "shuffle": Case(
        "jsonl", True, {"key.columns": "n", "key.converter": "org.apache.kafka.connect.converters.LongConverter"}
    ),
    "transforms": Case(
        config={"transforms": "cast", "transforms.cast.type": "Cast$Value", "transforms.cast.spec": "pad:string"}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_bad_rows_of_a_file_are_dead_letters(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics, tmp_path: Path, case: Case
):
    name, path = unique("connector"), tmp_path / "ä b.data"
    topic, dead = topics.create(partitions=2), topics.create(partitions=1)
    lines = case.lines()
    path.write_text("\n".join(lines) + "\n")
    schema = {"format": case.form, "schema": "n BIGINT, pad STRING"}
    skipping = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead}
    source = {"name": name, "connector.class": "FileSource", "files": str(path), "topic": topic}
    run_to_end(runner, source | schema | skipping | case.config)

    good = [json.loads(record.value or b"")["n"] for record in read_topic(bootstrap_servers, topic)]
    letters = read_topic(bootstrap_servers, dead)
    assert sorted(good + [int((letter.value or b"").split()[1]) for letter in letters]) == list(range(ROWS))
    assert [letter.value for letter in letters] == [f"bad {n}".encode() for n in BAD]
    first, second = told(letters[0]), told(letters[1])
    position = sum(len(line) + 1 for line in lines[:17])
    assert first["position"] == "0"
    assert second.pop("exception.message")
    assert second == {
        "topic": topic, "connector.name": name, "task.id": "0", "stage": "TASK_POLL",
        "class.name": "CsvReader" if case.form == "csv" else "JsonLinesReader", "exception.class.name": "DataError",
        "file": str(path), "position": str(position), "line": "18",
    }  # fmt: skip
    offsets = read_offsets(bootstrap_servers, runner.offsets_topic, name)
    [(partition, offset)] = offsets
    assert (partition, offset["position"]) == ({"filename": str(path)}, path.stat().st_size)
    # A failed attempt leaves no dead letters behind, not even aborted ones.
    assert len(read_topic(bootstrap_servers, dead, isolation="read_uncommitted")) == len(BAD)


def _spoiled(_: Any, records: Sequence[SourceRecord]) -> list[SourceRecord]:
    return [
        replace(record, value="refuse this", key="k") if record.source_offset["saved"] in (3, 8) else record
        for record in records
    ]


def test_a_batch_of_dead_letters_alone_is_committed_with_its_offsets(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics
):
    name, topic, dead = unique("connector"), topics.create(), topics.create()
    config = {"messages.per.poll": 4, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead}
    task, seen = runner.task(name, topic, config | converter(PickyConverter))

    def refuse_then_fail(_: Any, records: Sequence[SourceRecord]) -> list[SourceRecord]:
        if records[0].source_offset["saved"] > 4:
            raise RuntimeError("the source broke")
        return [replace(record, value="refuse this", key="k") for record in records]

    seen.on_poll = refuse_then_fail
    task.start()
    wait_for_state(task, State.FAILED)
    assert task.join(120)
    assert len(read_topic(bootstrap_servers, dead)) == 4
    # The offset of the dropped records is committed. Otherwise the next start would write the dead letters again.
    assert read_offsets(bootstrap_servers, runner.offsets_topic, name) == [({"task.id": f"{name}-0"}, {"saved": 4})]


@pytest.mark.parametrize("refusing", [converter(PickyConverter), TRANSFORM], ids=["converter", "transform"])
def test_polled_records_that_are_refused_are_dead_letters_with_their_offsets(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics, refusing: dict[str, str]
):
    name, topic, dead = unique("connector"), topics.create(), topics.create()
    config = {"limit": 8, "messages.per.poll": 4, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead}
    strings = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    task, seen = runner.task(name, topic, config | strings | refusing, stop_at_end=True)
    seen.on_poll = _spoiled
    task.start()
    assert task.join(480)
    assert task.state is State.STOPPED, task.error
    good = [record.value for record in read_topic(bootstrap_servers, topic)]
    assert seqs([value or b"" for value in good], name) == [1, 2, 4, 5, 6, 7]
    letters = read_topic(bootstrap_servers, dead)
    assert [(letter.key, letter.value) for letter in letters] == [(b"k", b"refuse this")] * 2
    headers = told(letters[1])
    assert headers["stage"] == ("TRANSFORMATION" if "transforms" in refusing else "VALUE_CONVERTER")
    assert (headers["topic"], headers["connector.name"]) == (topic, name)
    assert json.loads(headers["source.offset"]) == {"saved": 8}
    # The last record is a dead letter, and its offset is committed. From an older offset, it would be written again.
    assert read_offsets(bootstrap_servers, runner.offsets_topic, name) == [({"task.id": f"{name}-0"}, {"saved": 8})]
