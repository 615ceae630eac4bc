"""`fencepost.run` as scripts and notebooks call it, read by another client."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

import fencepost
from fencepost import ConfigError, RunError, source
from fencepost.kafka.errors import KafkaError
from tests.support.checker import assert_exactly_once, read_topic
from tests.support.processes import Process, wait_for
from tests.support.sequence_source import SequenceConnector
from tests.support.topics import Topics, unique

QUICK = {"poll.interval.ms": "20"}


def numbers(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Numbers below an end, from a function without a decorator."""
    for number in range((cursor or 0) + 1, int(config["end"]) + 1):
        yield {"n": number}, number


def found(bootstrap_servers: str, topic: str) -> list[Any]:
    return [json.loads(record.value or b"") for record in read_topic(bootstrap_servers, topic)]


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.create(partitions=1)


def test_a_function_runs_to_its_end_and_a_second_run_continues(
    bootstrap_servers: str, topic: str, capfd: pytest.CaptureFixture[str]
):
    first = fencepost.run(numbers, topic=topic, bootstrap_servers=bootstrap_servers, end=25, options=QUICK)
    assert (first.records, first.transactions, first.cursors, first.interrupted) == (25, 1, [25], False)
    assert first.offsets == [({"source": "numbers"}, {"cursor": 25})]
    assert first.bytes > 0
    assert f"numbers-{topic}: 25 rows" in capfd.readouterr().err

    options = QUICK | {"batch.rows": 2}
    second = fencepost.run(numbers, topic=topic, bootstrap_servers=bootstrap_servers, end=30, options=options)
    assert (second.records, second.transactions, second.cursors) == (5, 3, [30])
    third = fencepost.run(
        numbers, topic=topic, bootstrap_servers=bootstrap_servers, end=30, options=QUICK, progress=False
    )
    assert (third.records, third.cursors) == (0, [30])
    assert found(bootstrap_servers, topic) == [{"n": number} for number in range(1, 31)]


def test_runs_of_other_names_have_their_own_offsets(bootstrap_servers: str, topic: str):
    for name in (unique("one"), unique("two")):
        result = fencepost.run(
            numbers, name=name, topic=topic, bootstrap_servers=bootstrap_servers, end=3, options=QUICK
        )
        assert (result.name, result.records) == (name, 3)
    assert found(bootstrap_servers, topic) == [{"n": number} for number in (1, 2, 3, 1, 2, 3)]


def test_a_connector_and_a_decorated_function_that_has_no_name_in_its_module_run(bootstrap_servers: str, topic: str):
    @source(key="id")
    def framed(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config
        if cursor is None:
            yield pa.table({"id": [1, 2]}), 2

    framed_result = fencepost.run(framed, topic=topic, bootstrap_servers=bootstrap_servers, options=QUICK)
    assert (framed_result.records, framed_result.cursors) == (2, [2])
    records = read_topic(bootstrap_servers, topic)
    assert [(record.key, record.value) for record in records] == [(b"1", b'{"id":1}'), (b"2", b'{"id":2}')]

    result = fencepost.run(
        SequenceConnector, topic=topic, bootstrap_servers=bootstrap_servers, options={"tasks.max": 2}, limit=7
    )
    assert result.records == 14
    assert len(read_topic(bootstrap_servers, topic)) == 16


@source(config={"end": int}, partitions=["eu", "us", "apac"])
def regional(config: Mapping[str, Any], cursor: Any, partition: str) -> Iterator[tuple[Any, Any]]:
    """Numbers of each region."""
    for number in range((cursor or 0) + 1, config["end"] + 1):
        yield {"region": partition, "n": number}, number


def test_partitions_are_read_by_several_tasks_with_a_cursor_each(bootstrap_servers: str, topic: str):
    options = QUICK | {"tasks.max": 2, "batch.rows": 4}
    for end, tasks in [(10, 2), (25, 3), (30, 1)]:
        result = fencepost.run(
            regional, topic=topic, bootstrap_servers=bootstrap_servers, end=end, options=options | {"tasks.max": tasks}
        )
        assert result.cursors == [end] * 3
        assert sorted(dict(partition or {})["partition"] for partition, _ in result.offsets) == ["apac", "eu", "us"]
    rows = [(row["region"], row["n"]) for row in found(bootstrap_servers, topic)]
    assert_exactly_once(rows, [(region, number) for region in ("eu", "us", "apac") for number in range(1, 31)])


class Reader(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict[str, Any]:
        return {"index": 0}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        end = min(start["index"] + 5, 12)
        return iter([(number,) for number in range(start["index"], end)]), {"index": end}

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        raise NotImplementedError


class Indexes(DataSource):
    def schema(self) -> str:
        return "id INT"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        del schema
        return Reader()


def test_a_pyspark_data_source_runs(bootstrap_servers: str, topic: str):
    result = fencepost.run(Indexes, topic=topic, bootstrap_servers=bootstrap_servers, options=QUICK)
    assert (result.records, result.offsets) == (12, [({"source": "Indexes"}, {"offset": '{"index": 12}'})])
    assert found(bootstrap_servers, topic) == [{"id": number} for number in range(12)]


def test_a_run_needs_neither_the_main_thread_nor_an_idle_event_loop(bootstrap_servers: str, topic: str):
    def once(end: int) -> int:
        result = fencepost.run(numbers, topic=topic, bootstrap_servers=bootstrap_servers, end=end, options=QUICK)
        return result.records

    async def notebook() -> int:
        return once(3)

    assert asyncio.run(notebook()) == 3
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(once, 5).result() == 2
    assert len(found(bootstrap_servers, topic)) == 5


def failing(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """A source that fails at its fifth row."""
    del config
    for number in range((cursor or 0) + 1, 5):
        yield {"n": number}, number
    raise KeyError("the fifth")


def test_a_failure_raises_with_the_line_of_the_function(bootstrap_servers: str, topic: str):
    with pytest.raises(RunError, match=r"failed after 4 committed records: Task .* KeyError: 'the fifth'") as raised:
        fencepost.run(failing, topic=topic, bootstrap_servers=bootstrap_servers, options=QUICK | {"batch.rows": 2})
    cause = raised.value.__cause__
    assert isinstance(cause, KeyError)
    frames = []
    trace = cause.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert frames[-1] == "failing"
    assert (raised.value.result.records, raised.value.result.cursors) == (4, [4])
    assert found(bootstrap_servers, topic) == [{"n": number} for number in range(1, 5)]


def test_the_second_of_two_runs_at_once_fences_the_first(bootstrap_servers: str, topic: str):
    goes_on = threading.Event()
    started = threading.Event()

    def slow(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        for number in range((cursor or 0) + 1, 11):
            if config["which"] == "first" and number == 6:
                started.set()
                goes_on.wait(60)
            yield {"n": number}, number

    def start(which: str) -> fencepost.RunResult:
        return fencepost.run(
            slow, topic=topic, bootstrap_servers=bootstrap_servers, which=which, options=QUICK | {"batch.rows": 5}
        )

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(start, "first")
        try:
            assert started.wait(60)
            assert start("second").records == 5
        finally:
            goes_on.set()
        with pytest.raises(RunError, match="another"):
            first.result(60)
    assert found(bootstrap_servers, topic) == [{"n": number} for number in range(1, 11)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"source": "issues.issues"},
            r"fencepost.run\(\) was given the name 'issues.issues': it takes the Python function",
        ),
        ({"source": "org.acme.JavaSource"}, "'org.acme.JavaSource': .* connector in Java runs in workers only"),
        ({"source": numbers, "options": {"name": "x"}}, r"fencepost.run\(\) sets the property name itself"),
        ({"source": numbers, "options": {"batch.rows": {}}}, "The property batch.rows is a dict"),
        ({"source": numbers, "options": {"batch.rows": "many"}}, "batch.rows"),
        ({"source": numbers, "options": {"security.protocol": "NONE"}}, "security.protocol"),
        ({"source": numbers, "topic": None}, "topic"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(given: Any, message: str, bootstrap_servers: str):
    with pytest.raises(ConfigError, match=message):
        fencepost.run(**{"topic": "rows", "bootstrap_servers": bootstrap_servers, "progress": False} | given)


def test_brokers_that_cannot_be_reached_are_an_error():
    with pytest.raises(KafkaError):
        fencepost.run(
            numbers,
            topic="rows",
            bootstrap_servers="127.0.0.1:1",
            progress=False,
            options={"default.api.timeout.ms": 1000, "request.timeout.ms": 500},
        )


ENDLESS = """
import itertools, sys
import fencepost

def endless(config, cursor):
    for number in itertools.count((cursor or 0) + 1):
        yield {"n": number}, number

result = fencepost.run(endless, topic=sys.argv[2], bootstrap_servers=sys.argv[1])
print("interrupted:", result.interrupted, "records:", result.records, "cursor:", result.cursors[0])
"""


def test_ctrl_c_commits_and_returns_the_result(bootstrap_servers: str, topic: str, tmp_path: Path):
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    with Process([sys.executable, str(script), bootstrap_servers, topic], tmp_path / "log") as process:
        wait_for(lambda: read_topic(bootstrap_servers, topic) or not process.running)
        process.signal(signal.SIGINT)
        assert process.wait() == 0, process.output
        records = len(found(bootstrap_servers, topic))
        assert f"interrupted: True records: {records} cursor: {records}\n" in process.output
