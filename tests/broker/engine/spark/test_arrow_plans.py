"""Transforms that Arrow evaluates where rows are read give the same values as Spark. Spark evaluates the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from fencepost.api.ddl import parse_columns
from fencepost.api.errors import RetriableError
from fencepost.api.plugin import Transformation
from fencepost.api.record import SourceBatch
from fencepost.config.error_handling import ErrorHandling
from fencepost.engine.arrow_plan import ArrowPlan
from fencepost.engine.batch_columns import as_declared
from fencepost.engine.column_types import ColumnTypes
from fencepost.engine.engine import SparkEngine
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.spark.arrow_plans import ArrowPlans, arrow_plan
from fencepost.engine.spark.arrow_rows import frame_from_arrow
from fencepost.engine.spark.known_plans import settings_hash
from fencepost.engine.spark.local_rows import local_rows
from fencepost.engine.spark.transform import read_frame, transform_frame
from fencepost.engine.spark.upper_case import upper_exceptions
from fencepost.engine.write_stage import SplitRows
from fencepost.transforms.base import planned_by_schema
from fencepost.transforms.chain import Step
from fencepost.transforms.fields import InsertField
from fencepost.transforms.filter import Filter
from fencepost.transforms.sql import Sql, SqlPredicate
from tests.support.checker import read_topic, values
from tests.support.engine import SKIP, json_converter, pipeline, producer, write
from tests.support.topics import Topics

SCHEMA = (
    "value STRUCT<b: TINYINT, i: INT, n: BIGINT, f: FLOAT, d: DOUBLE, e: DOUBLE, s: STRING, u: STRING, ok: BOOLEAN, no: BOOLEAN, "
    "m: DECIMAL(12, 2), big: DECIMAL(38, 18), xs: ARRAY<BIGINT>, pairs: MAP<STRING, ARRAY<INT>>, day: DATE, at: TIMESTAMP, raw: BINARY, inner: STRUCT<x: BIGINT, y: STRING>>, key STRING"
)
ARROW = to_arrow_schema(parse_columns(SCHEMA), timezone="UTC")  # type: ignore[arg-type]


class Reader:
    """Reads the given rows."""

    schema = SCHEMA

    def __init__(self, rows: Sequence[dict[str, Any]] = ()) -> None:
        self._rows = rows

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(self._rows[split::2], schema=ARROW)


class Given:
    """Reads the given rows, in one split."""

    def __init__(self, schema: str, rows: pa.RecordBatch) -> None:
        self.schema = schema
        self._rows = rows

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        del split
        yield self._rows


def by_both(session: SparkSession, reader: Given, *steps: Step) -> tuple[list[Any], list[Any]]:
    """The rows of a reader after the transforms, evaluated by Arrow and by Spark."""
    steps_of = pipeline("t", value=json_converter(), transforms=steps)
    read = read_frame(session, SplitRows(reader, [0]), steps_of, "mark")
    changed, _ = transform_frame(read, steps_of)
    plan = arrow_plan(read, changed)
    assert plan is not None, "Arrow evaluates all of it"
    (batch,) = SplitRows(reader, [0]).read([0], ErrorHandler(ErrorHandling()))
    return plan(batch).to_pylist(), changed.toArrow().to_pylist()


def sql(**properties: str) -> Step:
    return step(Sql(), **properties)


def step(transform: Transformation, **properties: str) -> Step:
    transform.configure(properties)
    return Step(transform)


def optimized(session: SparkSession, *steps: Step) -> str:
    return str(transformed(session, *steps)[1]._jdf.queryExecution().optimizedPlan().toString())


def transformed(session: SparkSession, *steps: Step) -> tuple[DataFrame, DataFrame, ColumnTypes]:
    steps_of = pipeline("t", value=json_converter(), transforms=steps)
    read = read_frame(session, SplitRows(Reader(), [0]), steps_of, "mark")
    return read, *transform_frame(read, steps_of)


def planned(session: SparkSession, *steps: Step) -> ArrowPlan | None:
    return arrow_plan(*transformed(session, *steps)[:2])


def by_spark(session: SparkSession, rows: pa.RecordBatch, *steps: Step) -> pa.Table:
    given = as_declared(rows, {field.name: field.dataType for field in parse_columns(SCHEMA)})
    frame, _ = transform_frame(
        frame_from_arrow(session, given, parse_columns(SCHEMA)),  # type: ignore[arg-type]
        pipeline("t", value=json_converter(), transforms=steps),
    )
    table = local_rows(frame)
    return frame.toArrow() if table is None else table


def compared(session: SparkSession, rows: Sequence[dict[str, Any]], *steps: Step) -> list[dict[str, Any]]:
    """Evaluate the transforms with Arrow and with Spark, assert equal values and types, and return the rows."""
    plan = planned(session, *steps)
    assert plan is not None, "Arrow evaluates all of it"
    batch = pa.RecordBatch.from_pylist(rows, schema=ARROW)
    made, expected = plan(batch), by_spark(session, batch, *steps)
    # Compared as text, because NaN is not equal to itself, and 0.0 is equal to -0.0.
    expected = expected.select(made.schema.names)
    assert repr(made.to_pylist()) == repr(expected.to_pylist())
    assert made.schema.types == expected.schema.types
    return made.to_pylist()


def test_nan_zero_and_null_are_compared_as_in_spark(engine: SparkEngine):
    numbers = [None, 0.0, -0.0, 1.0, float("nan"), float("inf"), float("-inf")]
    rows = [{"value": {"d": one, "e": other}} for one in numbers for other in numbers]
    comparisons = ", ".join(f"value.d {op} value.e AS `{op}`" for op in ("=", "<", "<=", ">", ">=", "<=>"))
    found = compared(engine.session(), rows, sql(value=f"struct(value.d, value.e, {comparisons})"))
    same = [row["value"]["="] for row in found if row["value"]["d"] == 0 and row["value"]["e"] == 0]
    assert same == [True] * 4
    nan = [row["value"] for row in found if str(row["value"]["d"]) == str(row["value"]["e"]) == "nan"]
    assert [(row["="], row["<"], row[">="]) for row in nan] == [(True, False, True)]


def test_each_character_has_the_same_upper_case_as_in_spark(engine: SparkEngine):
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    texts_of = ["x".join(characters[start : start + 1_000]) for start in range(0, len(characters), 1_000)]
    compared(engine.session(), [{"value": {"s": text}} for text in texts_of], sql(value="struct(upper(value.s) AS s)"))
    exceptions = upper_exceptions(engine.session(), settings_hash(engine.session()))
    assert len(exceptions) < 1_000


def test_text_that_is_not_utf_8_becomes_upper_case_as_in_spark(engine: SparkEngine):
    parts = [b"a", b"\xff", b"\xc3", b"\xa9", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x28"]
    data = pa.array([b"".join(chosen) for chosen in product(parts, repeat=3)] + [b"\xc3\xa9", b"", b"b"])
    texts_of = pa.Array.from_buffers(pa.string(), len(data), data.buffers())
    reader = Given("value STRING", pa.RecordBatch.from_pydict({"value": texts_of}))
    found, expected = by_both(engine.session(), reader, sql(value="upper(value)"))
    assert found == expected


def test_steps_of_a_chain_are_one_plan(engine: SparkEngine):
    named = SqlPredicate()
    named.configure({"condition": "value.s = 'b'"})
    dropping = Filter()
    dropping.configure({})
    rows = [{"value": {"n": n, "s": s}, "key": "k"} for n, s in enumerate(["a", "b", "c", None])]
    chain = [
        sql(value="struct(value.n, value.s)"),
        Step(dropping, named),
        step(InsertField(), **{"static.field": "source", "static.value": "shop"}),
        sql(where="value.n <> 2", key="concat(key, value.source)"),
    ]
    found = compared(engine.session(), rows, *chain)
    assert [(row["key"], row["value"]) for row in found] == [
        ("kshop", {"n": 0, "s": "a", "source": "shop"}),
        ("kshop", {"n": 3, "s": None, "source": "shop"}),
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "value.n + 1", "value.n % value.i", "value.n % 0", "CAST(value.d AS STRING)", "CAST(value.s AS INT)", "lower(value.s)",
        "CAST(value.n AS INT)", "value.s LIKE 'a_b'", "sha2(value.raw, 256)",
        "CAST(value.at AS DATE)", "if(value.ok, value.inner, NULL)", "-value.n", "value.d / value.e",
        "CAST(X'FF' AS STRING)", "value.at < TIMESTAMP'2024-01-01 00:00:00'", "substring(value.s, 2)", "value.f = FLOAT('0.1')",
        "value.n IN (1, NULL)", "array(value.n)", "value.raw = value.raw",
    ],
)  # fmt: skip
def test_expressions_that_arrow_may_evaluate_differently_stay_with_spark(engine: SparkEngine, expression: str):
    assert planned(engine.session(), sql(value=f"struct({expression} AS x)")) is None


def test_a_transform_that_reads_other_rows_stays_with_spark(engine: SparkEngine):
    class Elsewhere(Filter):
        def apply(self, records: DataFrame) -> DataFrame:
            other = records.sparkSession.range(1).mapInArrow(lambda rows: rows, "id BIGINT")
            return other.selectExpr(
                "struct(id) AS value",
                "'t' AS topic",
                "NULL AS key",
                "NULL AS partition",
                "NULL AS timestamp",
                "NULL AS headers",
            )

    assert planned(engine.session(), Step(Elsewhere())) is None


def test_a_plan_is_made_once_for_a_key_even_if_arrow_cannot_evaluate_it():
    plans, made = ArrowPlans[str](), []

    def make(found: str | None) -> str | None:
        made.append(found)
        return found

    for key, found in (("a", "plan"), ("b", None), ("a", "other"), ("b", "other")):
        assert plans.found(key, lambda found=found: make(found)) == {"a": "plan", "b": None}[key]  # type: ignore[misc]
    assert made == ["plan", None]


@planned_by_schema
class LaterOnce(Filter):
    """Keeps all rows, but its first call raises an error that says to try again later."""

    calls = 0

    def apply(self, records: DataFrame) -> DataFrame:
        self.calls += 1
        if self.calls == 1:
            raise RetriableError("later")
        return records.where("key IS NOT NULL")


def test_a_retriable_error_of_planning_is_not_cached(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic, change = topics.create(partitions=1), LaterOnce()
    batch = SourceBatch(reader=Reader([{"value": None, "key": "k"}]), splits=[0])
    with producer(bootstrap_servers) as owner:
        for _ in range(3):
            assert write(engine, owner, batch, pipeline(topic, transforms=[step(change)])).written == 1
    assert change.calls == 3, "planning, Spark's own way, and the plan of Arrow, which the last batch has, too"


def test_rows_of_a_reader_are_changed_where_they_are_written(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics
):
    rows = [{"value": {"n": n, "s": "\u00e9" if n % 7 == 0 else f"x{n}"}, "key": f"k{n % 3}"} for n in range(1_000)]
    topic = topics.create(partitions=4)
    steps = pipeline(
        topic,
        value=json_converter(),
        transforms=[sql(where="value.n % 2 = 0", value="struct(value.n, upper(value.s) AS s)", key="concat(key, '!')")],
    )
    batch = SourceBatch(reader=Reader(rows), splits=[0, 1])
    with producer(bootstrap_servers) as owner:
        for _ in range(2):
            assert write(engine, owner, batch, steps).written == 500
    found = read_topic(bootstrap_servers, topic)
    expected = [({"n": n, "s": "\u00c9" if n % 7 == 0 else f"X{n}"}, f"k{n % 3}!".encode()) for n in range(0, 1_000, 2)]
    order = sorted(((json.loads(one.value or b""), one.key) for one in found), key=lambda one: one[0]["n"])
    assert order[::2] == order[1::2] == expected
    for key in (b"k0!", b"k1!", b"k2!"):
        numbers = [json.loads(one.value or b"")["n"] for one in found if one.key == key]
        assert numbers == sorted(numbers[: len(numbers) // 2]) * 2, "the rows of a key are in order"


def test_rows_of_another_type_are_skipped_alone(engine: SparkEngine, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=1)
    steps = pipeline(
        topic, value=json_converter(), errors=SKIP, transforms=[sql(topic="CASE value.s WHEN 'bad' THEN 'b/d' END")]
    )
    rows = [{"value": {"n": n, "s": None}} for n in range(10)]
    with producer(bootstrap_servers) as owner:
        result = write(engine, owner, SourceBatch(reader=Reader(rows), splits=[0, 1]), steps)
    assert result.written == 10
    assert len(values(read_topic(bootstrap_servers, topic))) == 10
