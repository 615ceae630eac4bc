"""Converters, Spark, and the worker without a job all find a reader's columns by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from fencepost import transform
from fencepost.api.errors import DataError
from fencepost.api.record import SourceBatch
from fencepost.engine.engine import SparkEngine
from fencepost.transforms.chain import Step
from fencepost.transforms.sql import Sql
from tests.support.checker import read_topic
from tests.support.engine import json_converter, pipeline, producer, write
from tests.support.topics import Topics


class Moved:
    """Reads rows whose columns and struct fields are in another order than in the schema."""

    schema = "key STRING, value STRUCT<x: BIGINT, y: BIGINT>, topic STRING"

    def __init__(self, topic: str, rows: pa.RecordBatch) -> None:
        self._topic = topic
        self._rows = rows

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        del split
        yield self._rows.append_column("topic", pa.array([self._topic] * self._rows.num_rows))


def sql(**properties: str) -> Step:
    change = Sql()
    change.configure(properties)
    return Step(change)


@transform(schema="x BIGINT, y BIGINT")
def unchanged(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


def function() -> Step:
    change = unchanged()
    change.configure({})
    return Step(change)


CHAINS = {
    "none": [],
    "function": [function()],
    "arrow": [sql(where="key IS NOT NULL")],
    "spark": [sql(where="length(key) = 1")],
}


@pytest.mark.parametrize("size", [None, 10], ids=["job", "worker"])
@pytest.mark.parametrize("steps", CHAINS.values(), ids=CHAINS)
def test_columns_in_another_order_keep_their_values(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, steps: Sequence[Step], size: int | None
):
    topic = topics.create(partitions=1)
    rows = pa.RecordBatch.from_pydict({"value": [{"y": 2, "x": 1}, None, {"y": 4, "x": 3}], "key": ["a", "b", "c"]})
    batch = SourceBatch.of_reader(Moved(topic, rows), [0], bytes=size)
    with producer(bootstrap_servers) as owner:
        write(engine, owner, batch, pipeline(value=json_converter(), transforms=steps))
    found: list[Any] = [(one.key, json.loads(one.value or b"null")) for one in read_topic(bootstrap_servers, topic)]
    assert found == [(b"a", {"x": 1, "y": 2}), (b"b", None), (b"c", {"x": 3, "y": 4})]


@pytest.mark.parametrize("size", [None, 10], ids=["job", "worker"])
@pytest.mark.parametrize("steps", CHAINS.values(), ids=CHAINS)
def test_a_missing_column_or_field_is_refused_and_not_null(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, steps: Sequence[Step], size: int | None
):
    topic = topics.create()
    for value, key in (({"x": 1, "y": 1}, "Key"), ({"x": 1, "z": 2}, "key")):
        rows = pa.RecordBatch.from_pydict({"value": [value], key: ["a"]})
        batch = SourceBatch.of_reader(Moved(topic, rows), [0], bytes=size)
        with (
            producer(bootstrap_servers) as owner,
            pytest.raises(DataError, match=r"Moved has .* in its schema, but gives only"),
        ):
            write(engine, owner, batch, pipeline(value=json_converter(), transforms=steps))
