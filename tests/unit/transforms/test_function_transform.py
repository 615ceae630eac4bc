"""Functions on columns as transforms: their arguments, and their valid results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from fencepost import ConfigError, DataError, transform
from fencepost.api.errors import PluginError
from fencepost.transforms.chain import Step, apply_chain
from fencepost.transforms.declared_function import ROW_INDEX
from tests.unit.transforms.support import Records, plain, predicate

SCHEMA = "id BIGINT, total DOUBLE"
VALUE = "STRUCT<id: BIGINT, price: DOUBLE, count: BIGINT>"
RECORDS = Records(
    VALUE,
    [
        {"key": "a", "value": (1, 1.5, 2)},
        {"key": "t", "value": None},
        {"key": "b", "value": (2, 0.5, None)},
        {"key": "c", "value": ((1 << 53) + 1, 2.0, 4)},
    ],
    key="STRING",
)


@transform(schema=SCHEMA)
def totals(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Multiplies two columns."""
    total = pc.multiply(rows["price"], pc.cast(rows["count"], pa.float64()))
    return pa.RecordBatch.from_pydict({"total": total, "id": rows["id"]})


@transform(schema=SCHEMA)
def expensive(rows: pa.RecordBatch) -> pa.RecordBatch:
    found = rows.filter(pc.greater(rows["price"], 1))
    return pa.RecordBatch.from_pydict({"id": found["id"], "total": found["price"], ROW_INDEX: found[ROW_INDEX]})


@transform(schema="id BIGINT, piece BIGINT", multiplies=True)
def pieces(rows: pa.RecordBatch) -> pa.RecordBatch:
    found = [(row["id"], piece, row[ROW_INDEX]) for row in rows.to_pylist() for piece in range(row["count"] or 0)]
    return pa.table(list(zip(*found, strict=True)), names=["id", "piece", ROW_INDEX])


@transform(schema="id BIGINT, count BIGINT, rounded INT")
def of_pandas(rows: pd.DataFrame) -> pd.DataFrame:
    kept = rows[rows["price"] > 1].assign(rounded=lambda frame: frame["price"].round().astype("int64[pyarrow]"))
    return kept[["id", "count", "rounded"]]


@transform(schema="id BIGINT", multiplies=True)
def repeated_in_pandas(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[["id"]].loc[rows.index.repeat(2)]


@transform(schema="STRING", on="key")
def shouted(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"key": pc.utf8_upper(rows["key"])})


@transform(schema="topic STRING, key STRING", on="record")
def routed(rows: pa.RecordBatch) -> pa.RecordBatch:
    keys = rows["key"]
    return pa.RecordBatch.from_pydict({"topic": pc.binary_join_element_wise(rows["topic"], keys, "."), "key": keys})


def made(plugin: type[Any]) -> Step:
    found = plugin()
    found.configure({})
    return Step(found)


def rows(spark: SparkSession, step: Step, records: Records = RECORDS) -> list[tuple[Any, Any, int]]:
    """The keys, values and positions made by executors and by the worker, which must be equal."""
    frame = apply_chain(records.frame(spark), [step])
    found = [plain(row) for row in frame.collect()]
    if step.predicate is None:
        (batch,) = records.frame(spark).toArrow().combine_chunks().to_batches()
        here = step.transform.rows().applied(batch)  # type: ignore[attr-defined]
        assert [one["value"] for one in here.to_pylist()] == [one["value"] for one in found]
        assert here.schema.names == frame.columns
    return [(one["key"], one["value"], one["__fencepost_row"]) for one in found]


def test_a_function_makes_values_of_the_declared_types(spark: SparkSession) -> None:
    assert rows(spark, made(totals)) == [
        ("a", {"id": 1, "total": 3.0}, 0),
        ("t", None, 1),
        ("b", {"id": 2, "total": None}, 2),
        ("c", {"id": (1 << 53) + 1, "total": 8.0}, 3),
    ]


def test_rows_that_a_function_leaves_out_are_dropped(spark: SparkSession) -> None:
    found = rows(spark, made(expensive))
    assert [(key, row) for key, _, row in found] == [("a", 0), ("t", 1), ("c", 3)], "a null value passes"


def test_rows_are_multiplied_in_order(spark: SparkSession) -> None:
    found = rows(spark, made(pieces))
    assert [(key, value and value["piece"], row) for key, value, row in found] == [
        ("a", 0, 0), ("a", 1, 0), ("t", None, 1), ("c", 0, 3), ("c", 1, 3), ("c", 2, 3), ("c", 3, 3),
    ]  # fmt: skip


def test_pandas_keeps_whole_numbers_and_knows_rows_by_their_labels(spark: SparkSession) -> None:
    assert rows(spark, made(of_pandas)) == [
        ("a", {"id": 1, "count": 2, "rounded": 2}, 0),
        ("t", None, 1),
        ("c", {"id": (1 << 53) + 1, "count": 4, "rounded": 2}, 3),
    ]
    assert [row for _, _, row in rows(spark, made(repeated_in_pandas))] == [0, 0, 1, 2, 2, 3, 3]


def test_keys_and_whole_records_are_changed(spark: SparkSession) -> None:
    assert [key for key, _, _ in rows(spark, made(shouted))] == ["A", "T", "B", "C"]
    frame = apply_chain(RECORDS.frame(spark), [made(routed)])
    assert [row["topic"] for row in frame.collect()] == ["t.a", "t.t", "t.b", "t.c"]
    assert frame.columns == RECORDS.frame(spark).columns


def test_values_that_are_not_structs_are_one_column(spark: SparkSession) -> None:
    @transform(schema="STRING")
    def lower(rows: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"value": pc.utf8_lower(rows["value"])})

    texts = Records("STRING", [{"value": "A"}, {"value": None}, {"value": "B"}])
    assert [value for _, value, _ in rows(spark, made(lower), texts)] == ["a", None, "b"]


def test_a_predicate_selects_the_records_of_a_function(spark: SparkSession) -> None:
    @transform(schema="id BIGINT, price DOUBLE, count BIGINT")
    def dropped(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.slice(0, 0)

    records = RECORDS.with_rows({**RECORDS.rows[0], "topic": "x"}, *RECORDS.rows[1:])
    step = Step(made(dropped).transform, predicate("TopicNameMatches", {"pattern": "x"}))
    assert [key for key, _, _ in rows(spark, step, records)] == ["t", "b", "c"]
    step = Step(made(totals).transform, predicate("TopicNameMatches", {"pattern": "x"}))
    with pytest.raises(ConfigError, match="records of one batch must be of one type"):
        rows(spark, step, records)


def bad(answer: Callable[[pa.RecordBatch], Any], **more: Any) -> Step:
    def function(rows: pa.RecordBatch) -> pa.RecordBatch:
        return answer(rows)

    return made(transform(schema="id BIGINT NOT NULL", **more)(function))


BATCH = pa.RecordBatch.from_pydict({"value": pa.array([{"id": 1}, {"id": 2}]), "__fencepost_row": [0, 1]})


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda _: None, "None"),
        (lambda _: [{"id": 1}], "list"),
        (lambda rows: rows.slice(1).drop_columns([ROW_INDEX]), "1 rows for 2 without the column __row"),
        (lambda rows: rows.take([1, 0]), "another order"),
        (lambda rows: rows.take([0, 0]), "without multiplies=True"),
        (lambda rows: rows.set_column(1, ROW_INDEX, pa.array([0, 7])), "that it was not given"),
        (lambda rows: rows.set_column(1, ROW_INDEX, pa.array(["0", "1"])), "a column __row of string"),
        (lambda rows: rows.rename_columns(["ident", ROW_INDEX]), "does not list: ident"),
        (lambda rows: rows.select([ROW_INDEX]), "no column id"),
    ],
)
def test_an_answer_that_does_not_keep_the_contract_is_refused(answer: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(PluginError, match=why):
        bad(answer).transform.rows().applied(BATCH)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pa.array(["x", "y"]), "gives the column id as string, which does not fit bigint"),
        (pa.array([1.5, 2.0]), "gives the column id as double"),
        (pa.array([1, None]), "NOT NULL"),
    ],
)
def test_values_that_do_not_fit_the_schema_are_refused(column: pa.Array, why: str) -> None:
    with pytest.raises(DataError, match=why):
        bad(lambda _: pa.RecordBatch.from_pydict({"id": column})).transform.rows().applied(BATCH)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("FLOAT", pa.array([16777217.0, 0.0])),
        ("FLOAT", pa.array([1e300, 0.0])),
        ("INT", pa.array(["5", "6"])),
        ("STRING", pa.array([5, 6])),
        ("INT", pa.array([True, False])),
        ("BIGINT", pa.array([1, 2], pa.timestamp("ns"))),
        ("TIMESTAMP", pa.array([1, 2])),
        ("STRUCT<a: INT>", pa.array([{"a": 1, "b": 2}] * 2, pa.struct([("a", pa.int32()), ("b", pa.int32())]))),
        ("ARRAY<STRUCT<a: INT>>", pa.array([[{"a": 1, "b": 2}]] * 2)),
        ("STRUCT<a: INT NOT NULL>", pa.array([{"a": None}] * 2, pa.struct([("a", pa.int32())]))),
        ("MAP<STRING, INT>", pa.array([[("a", 1), ("a", 2)], []], pa.map_(pa.string(), pa.int32()))),
        (
            "ARRAY<MAP<STRING, INT>>",
            pa.array([[[("a", 1), ("a", 2)]], None], pa.list_(pa.map_(pa.string(), pa.int32()))),
        ),
    ],
)
def test_values_that_the_schema_would_change_are_refused(kind: str, column: pa.Array) -> None:
    def function(_: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"id": column})

    with pytest.raises(DataError, match=r"function.*id.* schema"):
        made(transform(schema=f"id {kind}")(function)).transform.rows().applied(BATCH)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("BIGINT", pa.array([1, 2], pa.uint32())),
        ("ARRAY<BIGINT>", pa.array([[1], None], pa.list_(pa.int64(), 1))),
        ("STRUCT<a: BIGINT NOT NULL>", pa.array([{"a": 1}, None])),
        ("TIMESTAMP", pa.array([1_000, None], pa.timestamp("ns", "UTC"))),
        ("MAP<STRING, INT>", pa.array([[("a", 1), ("b", 1)], [("a", 1)]], pa.map_(pa.string(), pa.int32()))),
    ],
)
def test_values_that_fit_the_schema_stay(kind: str, column: pa.Array) -> None:
    def function(_: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"id": column})

    found = made(transform(schema=f"id {kind}")(function)).transform.rows().applied(BATCH)  # type: ignore[attr-defined]
    assert found["value"].field("id").to_pylist() == column.to_pylist()


def test_pandas_rows_with_new_labels_are_refused() -> None:
    @transform(schema="id BIGINT")
    def anew(rows: pd.DataFrame) -> pd.DataFrame:
        return rows[rows["id"] > 1].reset_index(drop=True)

    with pytest.raises(PluginError, match="that it was not given"):
        made(anew).transform.rows().applied(BATCH)  # type: ignore[attr-defined]


def test_the_decorator_refuses_anything_but_a_transform_function() -> None:
    def nothing() -> None:
        """Returns no rows."""

    async def later(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows

    for function in (nothing, later, "text", lambda rows, _: rows):
        with pytest.raises(TypeError, match="it takes a function"):
            transform(schema="id BIGINT")(function)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="value, key, record"):
        transform(schema="id BIGINT", on="headers")(lambda rows: rows)
    with pytest.raises(ConfigError):
        transform(schema="id BIGINTEGER")(lambda rows: rows)
    with pytest.raises(ConfigError, match="A record has no columns id"):
        transform(schema="id BIGINT", on="record")(lambda rows: rows)
    for schema in ("name VARCHAR(10)", "CHAR(3)", "names ARRAY<STRUCT<name: VARCHAR(10)>>"):
        with pytest.raises(ConfigError, match="write STRING for CHAR and VARCHAR"):
            transform(schema=schema)(lambda rows: rows)


@transform(schema="id BIGINT, name STRING", multiplies=True)
def repeated(rows: pl.DataFrame) -> pl.DataFrame:
    """Repeats each row as often as its id says, with its name in upper case."""
    index = pl.Series([place for place, number in enumerate(rows["id"]) for _ in range(number or 0)], dtype=pl.Int64)
    return rows[index].with_columns(pl.col("name").str.to_uppercase()).select("id", "name", "__row")


@transform(schema="id BIGINT")
def unordered(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.reverse().select("id", "__row")


def test_a_function_gets_and_returns_frames_of_polars() -> None:
    kind = pa.struct([("id", pa.int64()), ("name", pa.string())])
    values = [{"id": 2, "name": "a"}, None, {"id": 0, "name": "b"}, {"id": 1, "name": None}]
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values, kind), "n": pa.array(range(4))})
    found = repeated().rows().applied(batch)  # type: ignore[attr-defined]
    assert found["value"].to_pylist() == [{"id": 2, "name": "A"}] * 2 + [None, {"id": 1, "name": None}]
    assert found["n"].to_pylist() == [0, 0, 1, 3]
    with pytest.raises(PluginError, match="another order"):
        unordered().rows().applied(batch)  # type: ignore[attr-defined]
