"""Small batches of readers with transforms: the worker makes the same records as a Spark job, without a job."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fencepost import transform
from fencepost.api.errors import DataError
from fencepost.api.plugin import Transformation
from fencepost.api.record import SourceBatch
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.embedded.errors import JavaNotFoundError
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import RecordRefusedError
from fencepost.transforms.chain import Step
from fencepost.transforms.fields import ExtractField, HoistField, InsertField
from fencepost.transforms.records import InsertHeader, RegexRouter, ValueToKey
from fencepost.transforms.sql import Sql
from tests.broker.engine.spark.test_engine_functions import halves
from tests.broker.engine.spark.test_engine_transforms import jobs_run
from tests.support.checker import read_topic
from tests.support.engine import json_converter, pipeline, producer, write
from tests.support.topics import Topics

_WRITTEN = dt.datetime(2025, 1, 1, tzinfo=dt.UTC).timestamp() * 1000
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))


class AllColumns:
    """Reads rows with every column, with nulls in some."""

    schema = (
        "value STRUCT<id: BIGINT, price: DECIMAL(10, 2), at: TIMESTAMP, items: ARRAY<STRING>>, key STRING, topic STRING, "
        "partition INT, timestamp TIMESTAMP_NTZ, headers ARRAY<STRUCT<key: STRING, value: STRING>>"
    )

    def read(self, split: range) -> Iterator[pa.RecordBatch]:
        at = dt.datetime(2024, 2, 3, 4, 5, 6, 7000, tzinfo=dt.UTC)
        kind = pa.struct(
            [
                ("id", pa.int64()),
                ("price", pa.decimal128(10, 2)),
                ("at", pa.timestamp("us", "UTC")),
                ("items", pa.list_(pa.string())),
            ]
        )
        rows = [{"id": n, "price": n, "at": at, "items": ["a", str(n)][: n % 3]} if n % 4 else None for n in split]
        columns = {
            "value": pa.array(rows, kind),
            "key": pa.array([str(n) if n % 2 else None for n in split]),
            "topic": pa.nulls(len(split), pa.string()),
            "partition": pa.array([0 if n % 2 else None for n in split], pa.int32()),
            "timestamp": pa.array([at.replace(tzinfo=None)] * len(split), pa.timestamp("us")),
            "headers": pa.array([[("h", "x")] if n % 3 else None for n in split], _HEADERS),
        }
        yield pa.RecordBatch.from_pydict(columns)


class ValuesAlone:
    """Reads values only."""

    schema = "value STRING"

    def read(self, split: range) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": pa.array([str(n) if n % 4 else None for n in split])})


class Required:
    """Reads non-null structs with non-null fields, nested in nullable structs and in maps."""

    schema = (
        "value STRUCT<id: BIGINT NOT NULL, Id: STRING, row: STRUCT<n: INT NOT NULL, t: STRUCT<s: STRING NOT NULL> NOT NULL>, "
        "of: MAP<STRING, STRUCT<n: INT NOT NULL>>, list: ARRAY<STRUCT<n: INT NOT NULL>>> NOT NULL, "
        "key STRUCT<id: BIGINT NOT NULL>"
    )

    def read(self, split: range) -> Iterator[pa.RecordBatch]:
        numbers = pa.field("n", pa.int32(), nullable=False)
        text = pa.struct([pa.field("s", pa.string(), nullable=False)])
        identity = pa.field("id", pa.int64(), nullable=False)
        row = pa.struct([numbers, pa.field("t", text, nullable=False)])
        kind = pa.struct(
            [
                identity, ("Id", pa.string()), ("row", row), ("of", pa.map_(pa.string(), pa.struct([numbers]))),
                ("list", pa.list_(pa.struct([numbers]))),
            ]
        )  # fmt: skip
        rows = [
            {
                "id": n, "Id": None if n % 2 else f"i{n}", "row": {"n": n, "t": {"s": str(n)}} if n % 3 else None,
                "of": [("a", {"n": n}), ("b", None)] if n % 4 else None, "list": [{"n": n}, None] if n % 5 else None,
            }
            for n in split
        ]  # fmt: skip
        keys = [{"id": n} if n % 3 else None for n in split]
        yield pa.RecordBatch.from_pydict({"value": pa.array(rows, kind), "key": pa.array(keys, pa.struct([identity]))})


class RequiredUnsaid(Required):
    """The same rows, in arrays whose Arrow types do not say which fields are non-null."""

    def read(self, split: range) -> Iterator[pa.RecordBatch]:
        for batch in super().read(split):
            columns = {
                name: pa.array(batch[name].to_pylist(), _nullable(batch[name].type)) for name in ("value", "key")
            }
            yield pa.RecordBatch.from_pydict(columns)


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _nullable(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _nullable(kind.item_type))
    return pa.list_(_nullable(kind.value_type)) if pa.types.is_list(kind) else kind


class RequiredMissing(Required):
    """A row has a null in a field that its schema declares non-null."""

    schema = "value STRUCT<row: STRUCT<n: INT NOT NULL>>"

    def read(self, split: range) -> Iterator[pa.RecordBatch]:
        kind = pa.struct([("row", pa.struct([("n", pa.int32())]))])
        rows = [{"row": {"n": None if n == 6 else n}} for n in split]
        yield pa.RecordBatch.from_pydict({"value": pa.array(rows, kind)})


def step(transform: Transformation, **properties: str) -> Step:
    transform.configure({name.replace("_", "."): text for name, text in properties.items()})
    return Step(transform)


@transform(schema="half DOUBLE NOT NULL")
def halves_of_n(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"half": pc.divide(pc.cast(rows["n"], pa.float64()), 2)})


CHAINS: Mapping[str, tuple[type[Any], list[Step]]] = {
    "fields": (AllColumns, [step(InsertField(), topic_field="t", timestamp_field="ts"), step(InsertHeader(), header="i", value_literal="j")]),
    "sql": (AllColumns, [step(Sql(), where="value.id % 5 <> 1", value="struct(value.id, value.price * 2 AS p, value.at)")]),
    "explode": (AllColumns, [step(Sql(), explode="value.items", value="struct(value.id, item)")]),
    "nulls": (AllColumns, [step(Sql(), value="NULL", key="concat('k', key)")]),
    "functions": (AllColumns, [step(Sql(), value="struct(value.id)"), step(halves()), step(Sql(), where="value.half > 2")]),
    "texts": (ValuesAlone, [step(HoistField(), field="n"), step(RegexRouter(), regex="(.*)", replacement="$1")]),
    "keys": (ValuesAlone, [step(Sql(), where="value IS NOT NULL", value="struct(CAST(value AS INT) AS n)"), step(ValueToKey(), fields="n"), step(ExtractField(), field="n")]),
    "required fields": (Required, [step(Sql(), where="value.row.n IS NULL OR value.row.n <> 4", value="struct(value.row, value.of, value.list, upper(value.row.t.s) AS s)")]),
    "unsaid required fields": (RequiredUnsaid, [step(Sql(), where="value.row.n IS NULL OR value.row.n <> 4", value="struct(value.row, value.of, value.list, upper(value.row.t.s) AS s)")]),
    "required fields as they are": (Required, [step(InsertHeader(), header="i", value_literal="j")]),
    "unsaid required fields as they are": (RequiredUnsaid, [step(InsertHeader(), header="i", value_literal="j")]),
    "required fields, null or not": (Required, [step(Sql(), value="CASE WHEN value.row IS NOT NULL THEN value.row END", key="struct(key.id)")]),
    "unsaid required fields, null or not": (RequiredUnsaid, [step(Sql(), value="CASE WHEN value.row IS NOT NULL THEN value.row END", key="struct(key.id)")]),
    "required fields to functions": (Required, [step(Sql(), value="value.row", where="value.row IS NOT NULL"), step(halves_of_n()), step(Sql(), where="value.half > 2")]),
    "unsaid required fields to functions": (RequiredUnsaid, [step(Sql(), value="value.row", where="value.row IS NOT NULL"), step(halves_of_n()), step(Sql(), where="value.half > 2")]),
    "none left": (ValuesAlone, [step(Sql(), where="false")]),
    "not deterministic": (ValuesAlone, [step(Sql(), value="CASE WHEN rand() < 2 THEN value END", allow_nondeterministic="true")]),
}  # fmt: skip


def written(bootstrap_servers: str, topic: str) -> list[tuple[Any, ...]]:
    records = read_topic(bootstrap_servers, topic)
    # A record without a timestamp gets the time of its writing.
    times = [one.timestamp if one.timestamp < _WRITTEN else None for one in records]
    return [(one.partition, one.key, one.value, at, one.headers) for one, at in zip(records, times, strict=True)]


@pytest.mark.parametrize("name", CHAINS)
def test_the_worker_writes_the_same_records_as_a_spark_job(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, name: str
):
    kind, steps = CHAINS[name]
    # The rows' timestamps are older than the topic's default retention.
    small, large = (topics.create(config={"retention.ms": "-1"}) for _ in range(2))
    with producer(bootstrap_servers) as owner:
        for topic, size in ((small, 100), (large, None)):
            batch = SourceBatch(reader=kind(), splits=[range(9), range(14, 30)], bytes=size)
            for _ in range(3):
                jobs = jobs_run(engine.session())
                write(engine, owner, batch, pipeline(topic, value=json_converter(schemas=True), transforms=steps))
                if size and name not in ("not deterministic", "explode"):
                    assert jobs_run(engine.session()) == jobs
    expected = [tuple(str(part).replace(large, small) for part in one) for one in written(bootstrap_servers, large)]
    assert [tuple(map(str, one)) for one in written(bootstrap_servers, small)] == expected
    assert expected or name == "none left"


@pytest.mark.parametrize("size", [100, None])
def test_a_refused_row_is_skipped_alone(engine: SparkEngine, bootstrap_servers: str, topics: Topics, size: int | None):
    topic, dead = topics.create(partitions=1), topics.create(partitions=1)
    steps = [step(Sql(), value="struct(100 DIV (CAST(value AS INT) - 6) AS n)", where="value IS NOT NULL")]
    batch = SourceBatch(reader=ValuesAlone(), splits=[range(5, 8)], bytes=size)
    with producer(bootstrap_servers) as owner:
        with pytest.raises(RecordRefusedError, match=r"DIVIDE_BY_ZERO"):
            write(engine, owner, batch, pipeline(topic, value=json_converter(), transforms=steps))
        errors = ErrorHandling(Tolerance.ALL, dead_letter_topic=dead)
        result = write(engine, owner, batch, pipeline(topic, value=json_converter(), transforms=steps, errors=errors))
    assert [one[2] for one in written(bootstrap_servers, topic)] == [b'{"n":-100}', b'{"n":100}']
    assert [one[2] for one in written(bootstrap_servers, dead)] == [b"6"]
    assert result.errors.skipped == 1


def test_a_null_in_a_required_field_is_refused_alone(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=1)
    steps, batch = (
        [step(InsertHeader(), header="i", value_literal="j")],
        SourceBatch(reader=RequiredMissing(), splits=[range(5, 8)], bytes=100),
    )
    with producer(bootstrap_servers) as owner:
        with pytest.raises(RecordRefusedError, match=r"null in value\.row\.n, which its schema declares NOT NULL"):
            write(engine, owner, batch, pipeline(topic, value=json_converter(), transforms=steps))
        errors = ErrorHandling(Tolerance.ALL)
        result = write(engine, owner, batch, pipeline(topic, value=json_converter(), transforms=steps, errors=errors))
    assert [one[2] for one in written(bootstrap_servers, topic)] == [b'{"row":{"n":5}}', b'{"row":{"n":7}}']
    assert result.errors.skipped == 1


def test_a_row_without_a_topic_is_refused(engine: SparkEngine, bootstrap_servers: str):
    batch = SourceBatch(reader=ValuesAlone(), splits=[range(1, 2)], bytes=100)
    with producer(bootstrap_servers) as owner, pytest.raises(DataError, match="have no topic"):
        write(engine, owner, batch, pipeline(None, transforms=[step(HoistField(), field="n")]))


def test_a_spark_that_cannot_start_refuses_no_record(
    bootstrap_servers: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
):
    def missing() -> None:
        raise JavaNotFoundError("no Java 17 or later")

    engine = SparkEngine({})
    monkeypatch.setattr(engine, "session", missing)
    batch = SourceBatch(reader=ValuesAlone(), splits=[range(5, 8)], bytes=100)
    steps, errors = [step(HoistField(), field="n")], ErrorHandling(Tolerance.ALL)
    with producer(bootstrap_servers) as owner, pytest.raises(JavaNotFoundError):
        write(engine, owner, batch, pipeline(topics.create(), transforms=steps, errors=errors))


def test_an_empty_batch_starts_no_spark(bootstrap_servers: str, topics: Topics):
    engine = SparkEngine({})
    batch = SourceBatch(reader=ValuesAlone(), splits=[], bytes=0)
    with producer(bootstrap_servers) as owner:
        write(engine, owner, batch, pipeline(topics.create(), transforms=[step(HoistField(), field="n")]))
    assert not engine.started
