"""Odd CSV through a real task, on the worker and on Spark's executors: each row of the file is in Kafka once."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.connectors.files.formats.csv_reader import Dialect
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.source_write import SMALL_BATCH
from fencepost.runtime.state import State
from tests.fuzz.csv_files import MARK, Reference
from tests.support.checker import read_topic
from tests.support.task_runner import TaskRunner
from tests.support.topics import Topics, unique

FIELDS = (
    b"a", b"", b'"a,b"', b'"a\nb"', b'"a\r\n""b"""', b'5" pipe', b'"a"b', b'a""', b'"a"" "', b' "a', b'""', b'"a"b"c', "ü".encode(), MARK,
)  # fmt: skip


@pytest.fixture(scope="module")
def runner(broker: EmbeddedBroker) -> Iterator[TaskRunner]:
    json_values = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    schemaless = {"value.converter.schemas.enable": "false", "spark.master": "local[2]"}
    with TaskRunner(broker.bootstrap_servers, json_values | schemaless) as runner:
        yield runner


def odd_csv(seed: int, size: int) -> bytes:
    """Rows of two columns, of which some have one or three, in all kinds of quotes and line ends."""
    chance = random.Random(seed)
    rows = [MARK]
    left = size
    while left > 0:
        fields = chance.choices(FIELDS, k=chance.choice([1, 2, 2, 2, 2, 2, 2, 2, 3]))
        rows.append(b",".join([*fields[:-1], fields[-1] + b"x" * chance.choice([0, 0, 5000])]))
        rows.append(chance.choice([b"\n", b"\n", b"\r\n", b"\r", b"\n\n"]))
        left -= len(rows[-1]) + len(rows[-2])
    return b"".join(rows) + b'last,"row"'


@pytest.mark.parametrize(
    ("size", "batch_bytes", "compress"),
    [(300_000, 50_000, bytes), (300_000, 50_000, gzip.compress), (SMALL_BATCH + 500_000, 1 << 30, bytes)],
    ids=["worker", "compressed", "executors"],
)
def test_each_row_of_odd_csv_is_delivered_or_refused_once(  # noqa: PLR0917 - fixtures and cases
    runner: TaskRunner,
    bootstrap_servers: str,
    topics: Topics,
    tmp_path: Path,
    size: int,
    batch_bytes: int,
    compress: Callable[[bytes], bytes],
) -> None:
    path = tmp_path / "odd.csv"
    text = odd_csv(7, size)
    path.write_bytes(compress(text))
    topic, dead = topics.create(partitions=2), topics.create(partitions=1)
    skipping = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead}
    schema = {"format": "csv", "schema": "a STRING, b STRING", "null.value": "NULL", "batch.bytes": str(batch_bytes)}
    source = {"name": unique("connector"), "connector.class": "FileSource", "files": str(path), "topic": topic}
    task = runner.run_to_end(source | schema | skipping)
    assert task.state is State.STOPPED, task.error

    expected = Reference(text, Dialect()).values
    found = Counter(tuple(json.loads(record.value or b"").values()) for record in read_topic(bootstrap_servers, topic))
    assert found == Counter(tuple(row) for row in expected if len(row) == 2)
    letters = read_topic(bootstrap_servers, dead)
    # A byte order mark within the file belongs to its field.
    refused = [Reference(MARK + (letter.value or b""), Dialect()).values for letter in letters]
    assert refused == [[row] for row in expected if len(row) != 2]


def test_a_bad_header_fails_the_task_whatever_is_tolerated_and_loses_no_row(
    runner: TaskRunner, bootstrap_servers: str, topics: Topics, tmp_path: Path
) -> None:
    """Without it, all rows of its file would be lost without a trace."""
    for name, text in (("a", "id,t\n1,a\n"), ("b", "id,t,id\n2,b,2\n"), ("c", "id,t\n3,c\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    topic, dead = topics.create(), topics.create()
    source = {
        "name": unique("connector"), "connector.class": "FileSource", "files": f"{tmp_path}/*.csv", "topic": topic,
        "format": "csv", "header": "true", "schema": "id BIGINT, t STRING",
        "errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead,
    }  # fmt: skip
    task = runner.run_to_end(source)
    assert task.state is State.FAILED
    assert f"The header of the file {tmp_path / 'b.csv'} has a name twice" in str(task.error)
    assert _ids(bootstrap_servers, topic) == [1]

    (tmp_path / "b.csv").write_text("id,t\n2,b\n")
    task = runner.run_to_end(source)
    assert task.state is State.STOPPED, task.error
    assert _ids(bootstrap_servers, topic) == [1, 2, 3]
    assert read_topic(bootstrap_servers, dead) == []


def _ids(bootstrap_servers: str, topic: str) -> list[int]:
    return sorted(json.loads(record.value or b"")["id"] for record in read_topic(bootstrap_servers, topic))
