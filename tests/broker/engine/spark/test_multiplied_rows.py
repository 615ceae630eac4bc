"""Rows of readers and DataFrames that a transform turns into several: all of a row's records are written, or none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost import transform
from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import DataError
from fencepost.api.plugin import Transformation
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.converters.simple_header_converter import SimpleHeaderConverter
from fencepost.engine.engine import SparkEngine
from fencepost.transforms.chain import Step
from fencepost.transforms.declared_function import ROW_INDEX
from tests.broker.engine.spark.test_engine_sql import picky, sql
from tests.support.checker import read_topic, values
from tests.support.engine import SKIP, pipeline, producer, write
from tests.support.topics import Topics

MANY = 12_000
"""More rows than Spark passes to Python in one batch."""

ROWS: Mapping[int, list[str]] = {
    1: ["a", "b"],
    2: ["c", "refuse", "d", "refuse"],
    3: [],
    4: ["e"],
    5: ["f", *(f"n{n}" for n in range(MANY)), "refuse"],
    6: ["g", "h"],
    7: ["refuse"],
}
LEFT = [b"1a", b"1b", b"4e", b"6g", b"6h"]
REFUSED = (2, 5, 7)


class Orders:
    """Reads orders with their items. A split is a list of ids."""

    schema = "value STRUCT<id: INT, items: ARRAY<STRING>>, key STRING"

    def read(self, split: list[int]) -> Iterator[pa.RecordBatch]:
        kind = pa.struct([("id", pa.int32()), ("items", pa.list_(pa.string()))])
        rows = [{"id": n, "items": ROWS[n]} for n in split]
        keys = [f"k{n}" for n in split]
        yield pa.RecordBatch.from_pydict({"value": pa.array(rows, kind), "key": pa.array(keys)})


@transform(schema="STRING", multiplies=True)
def items(rows: pa.RecordBatch) -> pa.RecordBatch:
    parents = pc.list_parent_indices(rows["items"])
    texts = pc.binary_join_element_wise(
        pc.cast(rows["id"].take(parents), pa.string()), pc.list_flatten(rows["items"]), ""
    )
    return pa.RecordBatch.from_pydict({"value": texts, ROW_INDEX: rows[ROW_INDEX].take(parents)})


class Exploded(Transformation):
    """An author's own transform."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        pass

    def apply(self, records: DataFrame) -> DataFrame:
        exploded = records.select("*", F.explode("value.items").alias("item"))
        return exploded.withColumn("value", F.concat("value.id", "item")).drop("item")


CHAINS: Mapping[str, list[Step]] = {
    "sql": [sql(explode="value.items", value="concat(value.id, item)")],
    "function": [Step(items())],
    "sql after a function": [Step(items()), sql(explode="array(value)", value="item")],
    "author": [Step(Exploded())],
}


@pytest.mark.parametrize("size", [100, None])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("chain", CHAINS)
def test_all_records_of_a_row_are_skipped_if_a_converter_refuses_one(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, chain: str, *, partitions: int, size: int | None
):
    topic, dead = topics.create(partitions=partitions), topics.create(partitions=1)
    errors = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead)
    batch = SourceBatch(reader=Orders(), splits=[[1, 2, 3], [4], [5, 6, 7]], bytes=size)
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, batch, pipeline(topic, value=picky(), transforms=CHAINS[chain], errors=errors))
    found = values(read_topic(bootstrap_servers, topic))
    assert (found if partitions == 1 else sorted(found)) == LEFT
    assert (result.errors.skipped, result.errors.failures) == (3, 3)
    letters: list[Any] = read_topic(bootstrap_servers, dead)
    assert sorted(json.loads(one.value)["id"] for one in letters) == list(REFUSED), "the dead letter is the row"
    assert {one.key for one in letters} == {f"k{n}".encode() for n in REFUSED}


@pytest.mark.parametrize("dead_letters", [True, False])
@pytest.mark.parametrize("size", [100, None])
@pytest.mark.parametrize("chain", ["sql", "function"])
def test_the_log_shows_the_row_of_a_refused_record(
    engine: SparkEngine,
    bootstrap_servers: str,
    topics: Topics,
    caplog: pytest.LogCaptureFixture,
    chain: str,
    *,
    size: int | None,
    dead_letters: bool,
):
    topic, dead = topics.create(partitions=1), topics.create(partitions=1) if dead_letters else None
    errors = ErrorHandling(Tolerance.ALL, log_enable=True, log_include_messages=True, dead_letter_topic=dead)
    batch = SourceBatch(reader=Orders(), splits=[[1, 2, 3], [4], [7]], bytes=size)
    with producer(bootstrap_servers) as owner:
        write(engine, owner, batch, pipeline(topic, value=picky(), transforms=CHAINS[chain], errors=errors))
    assert values(read_topic(bootstrap_servers, topic)) == LEFT[:3]
    shown = [one.getMessage().partition(" The record: ")[2] for one in caplog.records if one.levelname == "ERROR"]
    assert [text for text in shown if text] == [
        repr({"value": {"id": n, "items": ROWS[n]}, "key": f"k{n}"}) for n in (2, 7)
    ]


def test_rows_of_a_dataframe_are_held_without_dead_letters(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic, other = topics.create(partitions=1), topics.create(partitions=1)
    rows = [((n, texts),) for n, texts in ROWS.items()]
    frame = engine.session().createDataFrame(rows, Orders.schema.rpartition(",")[0]).coalesce(1)
    routed = f"CASE WHEN item IN ('d', 'h') THEN '{other}' END"
    steps = [sql(explode="value.items", topic=routed, value="concat(value.id, item)")]
    with producer(bootstrap_servers) as owner:
        result = write(
            engine, owner, SourceBatch(frame, []), pipeline(topic, value=picky(), transforms=steps, errors=SKIP)
        )
    assert values(read_topic(bootstrap_servers, topic)) == LEFT[:-1]
    assert values(read_topic(bootstrap_servers, other)) == LEFT[-1:]
    assert result.errors.skipped == 3


BAD: Mapping[str, tuple[Mapping[str, str], str]] = {
    "topic": ({"topic": "if(item = 'refuse', 'no topic', '{topic}')"}, "KAFKA_PRODUCE"),
    "partition": ({"partition": "if(item = 'refuse', -1, 0)"}, "KAFKA_PRODUCE"),
    "timestamp": ({"timestamp": "if(item = 'refuse', -2, 5)"}, "KAFKA_PRODUCE"),
    "header": ({"headers": "map('h', item)"}, "HEADER_CONVERTER"),
    "later transform": ({}, "TRANSFORMATION"),
}


class PickyHeaders(SimpleHeaderConverter):
    """Refuses the header value "refuse"."""

    def from_connect_header(self, topic: str, schema: Any, values: pa.Array) -> pa.Array:
        if "refuse" in values.to_pylist():
            raise DataError("refused")
        return super().from_connect_header(topic, schema, values)


def batch_of(topic: str, route: str) -> list[SourceRecord] | SourceBatch:
    if route != "polled":
        return SourceBatch(reader=Orders(), splits=[[1, 2, 3], [4], [5, 6, 7]], bytes=100 if route == "small" else None)
    schema = "id INT, items ARRAY<STRING>"
    return [
        SourceRecord({}, {"id": n}, topic, {"id": n, "items": ROWS[n]}, value_schema=schema, key=f"k{n}") for n in ROWS
    ]


@pytest.mark.parametrize("route", ["polled", "small", "job"])
@pytest.mark.parametrize("bad", BAD)
def test_all_records_of_a_row_are_skipped_if_one_is_refused_later(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, bad: str, route: str
):
    topic, dead = topics.create(partitions=1), topics.create(partitions=1)
    properties, stage = BAD[bad]
    made = {name: text.format(topic=topic) for name, text in properties.items()}
    steps = [sql(explode="value.items", value="concat(value.id, item)", **made)]
    if bad == "later transform":
        steps.append(sql(value="if(value LIKE '%refuse', raise_error('no'), value)"))
    errors = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead)
    headers = PickyHeaders()
    headers.configure({})
    with producer(bootstrap_servers) as owner:
        result = write(
            engine, owner, batch_of(topic, route), pipeline(topic, header=headers, transforms=steps, errors=errors)
        )
    assert values(read_topic(bootstrap_servers, topic)) == LEFT
    assert (result.errors.skipped, result.errors.failures) == (3, 3)
    letters: list[Any] = read_topic(bootstrap_servers, dead)
    assert sorted(json.loads(one.value)["id"] for one in letters) == list(REFUSED), "the dead letter is the row"
    assert {dict(one.headers)["__connect.errors.stage"] for one in letters} == {stage.encode()}
