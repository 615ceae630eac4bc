"""Random expressions over hostile rows: where Arrow evaluates them, Kafka gets the same bytes as from Spark."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.engine.column_types import ColumnTypes
from fencepost.engine.conversion import convert
from fencepost.engine.engine import SparkEngine
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.spark.arrow_plans import arrow_plan
from fencepost.kafka.records.columns import Records
from tests.broker.engine.spark.test_arrow_plans import ARROW, by_spark, optimized, sql, transformed
from tests.support.engine import json_converter, pipeline

_EDGES = [0, 1, -1, 2, 3, 10, 127, -128]
_LONGS = st.sampled_from([*_EDGES, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(
    -(2**63), 2**63 - 1
)
_INTS = st.sampled_from([*_EDGES, 2**31 - 1, -(2**31)])
_DOUBLES = (
    st.sampled_from(
        [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), sys.float_info.max, sys.float_info.min, 5e-324, 0.1]
    )
    | st.floats()
)
_TEXTS = st.sampled_from(
    ["", "a", "A", "ab", "\0", "stra\u00dfe", "\u0149", "\U0001f600", "\U00010428", "\u0264", "\uffff", "\u0130", "\U00010d70", "\ufffd"]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)  # fmt: skip
_MAYBE = st.none()


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    whole = st.sampled_from([0, 1, -1, most, -most]) | st.integers(-most, most)
    return whole.map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)))


_VALUES = st.fixed_dictionaries(
    {
        "b": _MAYBE | st.integers(-128, 127),
        "i": _MAYBE | _INTS,
        "n": _MAYBE | _LONGS,
        "f": _MAYBE | st.floats(width=32),
        "d": _MAYBE | _DOUBLES,
        "e": _MAYBE | _DOUBLES,
        "s": _MAYBE | _TEXTS,
        "u": _MAYBE | _TEXTS,
        "ok": _MAYBE | st.booleans(),
        "no": _MAYBE | st.booleans(),
        "m": _MAYBE | _decimals(12, 2),
        "big": _MAYBE | _decimals(38, 18),
        "xs": _MAYBE | st.lists(_MAYBE | _LONGS, max_size=3),
        "pairs": _MAYBE | st.dictionaries(_TEXTS, _MAYBE | st.lists(_MAYBE | _INTS, max_size=2), max_size=2),
        # Days and microseconds, also before 1582 and after 9999.
        "day": _MAYBE | st.sampled_from([-719_163, -141_428, 2_932_897]) | st.integers(-(10**7), 10**7),
        "at": _MAYBE | st.sampled_from([-1, -(2**62), 2**62]) | st.integers(-(2**62), 2**62),
        "raw": _MAYBE | st.binary(max_size=4),
        "inner": _MAYBE | st.fixed_dictionaries({"x": _MAYBE | _LONGS, "y": _MAYBE | _TEXTS}),
    }
)
_ROWS = st.lists(st.fixed_dictionaries({"value": _MAYBE | _VALUES, "key": _MAYBE | _TEXTS}), max_size=40)


def _one_of(draw: st.DrawFn, *texts: str) -> str:
    return draw(st.sampled_from(texts))


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> str:
    """A condition made of expressions that Arrow evaluates."""
    comparison = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
    column = draw(st.sampled_from(["b", "i", "n", "f", "d", "s", "ok", "m", "day", "at", "raw", "inner", "inner.x"]))
    simple = [
        f"value.big {comparison} value.big",
        f"value.{column} IS NULL", f"value.{column} IS NOT NULL", "value.ok", f"isnan(value.{_one_of(draw, 'f', 'd')})",
        f"value.n IN (1, -1, {2**63 - 1})", "value.s IN ('', 'a', '\U0001f600')", f"{draw(whole())} {comparison} {draw(whole())}",
        f"{draw(fractions(0))} {comparison} {draw(fractions(0))}", f"{draw(texts(0))} {comparison} {draw(texts(0))}",
        f"value.day {comparison} value.day", f"value.m {comparison} 1.25BD", f"value.f {comparison} value.f",
        f"value.at {comparison} value.at", f"value.s LIKE '{_one_of(draw, 'a%', '%a', '%a%')}'", "value.ok <=> value.no",
        "value.ok = value.no", "value IS NULL", f"value.d {comparison} CAST('{_one_of(draw, 'NaN', '-0.0', 'Infinity')}' AS DOUBLE)",
    ]  # fmt: skip
    if depth == 0:
        return f"({draw(st.sampled_from(simple))})"
    first, second = draw(conditions(depth - 1)), draw(conditions(depth - 1))
    return draw(st.sampled_from([f"({first} AND {second})", f"({first} OR {second})", f"(NOT {first})", first, second]))


def whole() -> st.SearchStrategy[str]:
    return st.sampled_from(
        ["value.n", "value.n % 10", "value.n % -7", "CAST(value.i AS BIGINT)", "CAST(value.b % 3Y AS BIGINT)", "value.inner.x", "5", f"{2**63 - 1}"]
    )  # fmt: skip


@st.composite
def fractions(draw: st.DrawFn, depth: int = 2) -> str:
    """An expression of type DOUBLE."""
    leaf = draw(
        st.sampled_from(["value.d", "value.e", "CAST(value.n AS DOUBLE)", "1.19D", "-0.0D", "1E300D"])
    )  # fmt: skip
    if depth == 0:
        return leaf
    first, second = draw(fractions(depth - 1)), draw(fractions(depth - 1))
    operator = draw(st.sampled_from(["+", "-", "*"]))
    return draw(
        st.sampled_from([leaf, f"({first} {operator} {second})", f"({first} / 3.5D)", f"coalesce({first}, {second})"])
    )


@st.composite
def texts(draw: st.DrawFn, depth: int = 1) -> str:
    """An expression of type STRING."""
    leaf = draw(
        st.sampled_from(
            ["value.s", "value.u", "value.inner.y", "key", "'x'", "CAST(value.n AS STRING)", "CAST(value.b AS STRING)", "CAST(value.ok AS STRING)"]
        )
    )  # fmt: skip
    if depth == 0:
        return leaf
    first, second = draw(texts(depth - 1)), draw(texts(depth - 1))
    condition = draw(conditions(0))
    return draw(
        st.sampled_from(
            [
                f"upper({first})", f"concat({first}, {second}, '\U0001f600')", f"if({condition}, {first}, {second})",
                f"CASE WHEN {condition} THEN {first} WHEN value.no THEN {second} END", f"coalesce({first}, {second}, '')",
            ]
        )
    )  # fmt: skip


def sent(table: pa.Table | pa.RecordBatch, types: ColumnTypes, schemas: bool) -> list[Any] | str:
    """The keys and values that reach Kafka, or the converter's error."""
    steps = pipeline("t", value=json_converter(schemas=schemas))
    batches = table.combine_chunks().to_batches() if isinstance(table, pa.Table) else [table]
    try:
        records = [one.records for batch in batches for one in convert(batch, types, steps, ErrorHandler(steps.errors))]
    except DataError as error:
        return str(error)
    return [pair for one in records for pair in zip(keys(one), one.value.to_pylist(), strict=True)]


def keys(records: Records) -> list[Any]:
    return [None] * len(records) if records.key is None else records.key.to_pylist()


@given(
    rows=_ROWS, where=conditions(), made=st.tuples(conditions(), fractions(), texts(), texts()), schemas=st.booleans()
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_same_bytes_reach_kafka_by_arrow_and_by_spark(
    engine: SparkEngine, rows: list[dict[str, Any]], where: str, made: tuple[str, str, str, str], schemas: bool
):
    condition, number, text, key = made
    value = (
        f"struct({condition} AS c, {number} AS n, {text} AS t, if({condition}, value.inner, struct(value.n % 3 AS x, key AS y)) "
        "AS inner, CAST(value.f AS DOUBLE) AS f, value.m, value.big, value.xs, value.pairs, value.day, value.at, value.raw, 'a' AS l)"
    )
    change = sql(where=where, value=value, key=key)
    read, changed, types = transformed(engine.session(), change)
    plan = arrow_plan(read, changed)
    if plan is None:
        # Where a condition is never true, Spark plans an empty relation without a filter.
        assert "LocalRelation" in optimized(engine.session(), change)
        return
    batch = pa.RecordBatch.from_pylist(rows, schema=ARROW)
    found, expected = plan(batch), by_spark(engine.session(), batch, change)
    assert found.schema.types == expected.select(found.schema.names).schema.types
    assert sent(found, types, schemas) == sent(expected, types, schemas)
