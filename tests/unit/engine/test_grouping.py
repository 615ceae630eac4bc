"""Polled records are grouped by topic and type."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
from dataclasses import replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as t

from fencepost import ConfigDef, Predicate, converters, transform
from fencepost.api.errors import ConfigError, DataError
from fencepost.api.record import RefusedRow, SourceRecord
from fencepost.config.error_handling import ErrorHandling
from fencepost.config.plugin_sources import ANY_MODULE
from fencepost.config.plugins import PluginKind, find_plugin
from fencepost.converters.simple_header_converter import SimpleHeaderConverter
from fencepost.engine.conversion import ROW, convert, in_record_order
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.errors import RecordRefusedError
from fencepost.engine.grouping import RecordGroup, group_records, signature
from fencepost.engine.schemaless_json import json_texts
from fencepost.transforms.chain import Step
from fencepost.transforms.records import DropHeaders
from tests.support.engine import SKIP, pipeline


class _Text(str):
    __slots__ = ()


class _Level(IntEnum):
    LOW = 1


def record(value: object = None, topic: str = "t", **more: object) -> SourceRecord:
    return SourceRecord({}, {}, topic, value, **more)  # type: ignore[arg-type]


def grouped(
    records: list[SourceRecord], handling: ErrorHandling | None = None, *, structured: bool = False
) -> list[RecordGroup]:
    errors = ErrorHandler(handling or ErrorHandling(), records=records)
    return group_records(records, pipeline(), errors, structured=structured)


def test_a_record_may_say_minus_one_for_no_timestamp_as_in_connect():
    (group,) = grouped([record(1, timestamp=at) for at in (-1, 5, None, -2)])
    assert group.columns["timestamp"].to_pylist() == [None, 5, None, -2]


def test_records_of_one_kind_are_one_group():
    (group,) = grouped([record({"a": n}, key="k") for n in range(3)])
    assert group.columns["value"].type == pa.json_()
    assert group.columns["value"].storage.to_pylist() == ['{"a":0}', '{"a":1}', '{"a":2}']
    assert group.columns["key"].type == pa.string()
    assert (group.types.value, group.types.has_key, group.types.has_partition) == (None, True, False)


def test_groups_split_by_topic_schema_and_kind_and_keep_row_positions():
    records = [record(1), record("a"), record(2), record(3, topic="u"), record(4, value_schema="INT"), record(None)]
    groups = grouped(records)
    assert [(g.topic, g.columns[ROW].to_pylist()) for g in groups] == [
        ("t", [0, 2]), ("t", [1]), ("u", [3]), ("t", [4]), ("t", [5]),
    ]  # fmt: skip


def test_records_without_a_topic_are_for_the_default_topic():
    records = [SourceRecord({}, {}, value=1), record(2), SourceRecord({}, {}, None, "a"), record(3, topic="u")]
    errors = ErrorHandler(ErrorHandling(), records=records)
    groups = group_records(records, pipeline("t"), errors)
    assert [(g.topic, g.columns[ROW].to_pylist()) for g in groups] == [("t", [0]), ("t", [1]), ("t", [2]), ("u", [3])]


def test_a_record_without_a_topic_is_refused_even_if_errors_are_tolerated():
    records = [record(1), SourceRecord({"file": "a"}, {"row": 7}, value=1)]
    with pytest.raises(
        DataError, match=r"partition {'file': 'a'} at {'row': 7} has no topic: give SourceRecord\(topic="
    ):
        grouped(records, SKIP)


def test_equal_schemas_are_one_schema():
    struct = "STRUCT<id: INT>"
    records = [
        record({"id": 1}, value_schema="id INT"), record({"id": 2}, value_schema="id " + "INT"),
        record({"id": 3}, value_schema=t.StructType([t.StructField("id", t.IntegerType())])),
        record({"id": 4}, value_schema=struct),
    ]  # fmt: skip
    (group,) = grouped(records)
    assert group.types.value == t.StructType([t.StructField("id", t.IntegerType())])


def test_values_take_the_types_of_their_schema():
    value = {
        "at": dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "price": decimal.Decimal("1.50"), "tags": {"a": 1},
        "day": dt.date(2024, 1, 2), "blob": b"x", "list": [1.5, None],
    }  # fmt: skip
    schema = "at TIMESTAMP, price DECIMAL(5,2), tags MAP<STRING, INT>, day DATE, blob BINARY, list ARRAY<DOUBLE>"
    (group,) = grouped([record(value, value_schema=schema), record(None, value_schema=schema)])
    first = group.columns["value"][0].as_py()
    assert first["at"] == value["at"]
    assert first["price"] == value["price"]
    assert first["tags"] == [("a", 1)]
    assert group.columns["value"][1].as_py() is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [("INT", "x"), ("id INT", {"id": "x"}), ("STRING", 5), ("TINYINT", 1_000), ("id INT", 5), ("DECIMAL(3,1)", "x")],
)
def test_a_misfit_is_named_with_its_position(schema: str, value: object):
    good: object = None
    with pytest.raises(DataError, match=r"for topic t, does not fit value_schema.* It is number 1 of its batch"):
        grouped([record(good, value_schema=schema), record(value, value_schema=schema)])


def test_records_that_do_not_fit_are_left_out_where_that_is_tolerated():
    values = [None, 1, "x", 2.5, 4]
    records = [
        record(value, value_schema="INT", key=f"k{row}", headers=[("h", row)]) for row, value in enumerate(values)
    ]
    records += [record({"at": float("nan")}), record({"at": 1.0}), record(object())]
    first, second = grouped(records, SKIP)
    assert first.columns["value"].to_pylist() == [None, 1, 4]
    assert first.columns["key"].to_pylist() == ["k0", "k1", "k4"]
    assert [headers[0]["value"] for headers in first.columns["headers"].to_pylist()] == [b"0", b"1", b"4"]
    assert first.columns[ROW].to_pylist() == [0, 1, 4]
    assert second.columns[ROW].to_pylist() == [6]


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_null_in_a_required_field_is_refused_alone_before_transforms(part: str):
    schema = "id BIGINT NOT NULL, inner STRUCT<n: INT NOT NULL>"
    values = [{"id": 1, "inner": None}, {"id": None}, {"id": 2, "inner": {"n": None}}, {"id": 3, "inner": {"n": 4}}]
    records = [record(**{part: value, f"{part}_schema": schema}) for value in [None, *values]]
    steps = pipeline(transforms=[Step(DropHeaders())], errors=SKIP)
    errors = ErrorHandler(steps.errors, records=records)
    (*_, group) = group_records(records, steps, errors, structured=True)
    assert group.columns[part].to_pylist()[-2:] == [values[0], {"id": 3, "inner": {"n": 4}}]
    assert errors.refused == {2, 3}
    with pytest.raises(RecordRefusedError, match=rf"null in {part}\.id, which its schema declares NOT NULL"):
        group_records(records, steps, ErrorHandler(ErrorHandling(), records=records), structured=True)


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_group_without_fitting_records_is_left_out(part: str):
    records = [record(**{part: {"price": decimal.Decimal(number)}}) for number in range(3)]
    assert grouped([*records, record("x")], SKIP)[0].columns["value"].to_pylist() == ["x"]


def test_a_record_with_a_refused_row_is_refused_with_its_reason():
    rows = [record(1), record(RefusedRow(b"x", "it is x.")), record(2), record(RefusedRow(b"y", "it is y."))]
    with pytest.raises(DataError, match=r"TASK_POLL \(SourceTask\): it is x\. It is number 1 of its batch"):
        grouped(rows)
    (group,) = grouped(rows, SKIP)
    assert group.columns["value"].to_pylist() == [1, 2]


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_number_beyond_64_bits_is_named(part: str):
    with pytest.raises(DataError, match=r"the number 9223372036854775808, which is beyond 64 bits: give str\(value\)"):
        grouped([record(**{part: 1}), record(**{part: 2**63})])


@pytest.mark.parametrize("text", ["NaN", "-Infinity"])
def test_a_decimal_that_is_not_a_number_is_named(text: str):
    with pytest.raises(DataError, match=rf"has the Decimal {text}, which is not a number: give None"):
        grouped([record(decimal.Decimal(text))])


def test_decimals_of_a_subclass_keep_their_scales_too():
    class Price(decimal.Decimal):
        pass

    groups = grouped([record(Price("1.2")), record(Price("1.25"))])
    assert [group.columns["value"].cast(pa.string()).to_pylist() for group in groups] == [["1.2"], ["1.25"]]


@pytest.mark.parametrize("schema", ["ARRAY<TIMESTAMP>", "MAP<STRING, TIMESTAMP>", "ARRAY<INT>"])
def test_a_value_that_is_not_a_collection_is_refused_with_its_schema(schema: str):
    with pytest.raises(DataError, match="for topic t, does not fit value_schema"):
        grouped([record(5, value_schema=schema)])


@pytest.mark.parametrize(
    "part",
    [
        {"value": "a\ud800"},
        {"value": {"name": "a\ud800"}},
        {"value": {"a\ud800": 1}},
        {"value": {"name": "a\ud800"}, "value_schema": "name STRING"},
        {"key": ["a\ud800"]},
        {"headers": [("h", "a\ud800")]},
        {"headers": [("a\ud800", 1)]},
    ],
    ids=str,
)
def test_half_of_a_surrogate_pair_is_named(part: dict[str, Any]):
    with pytest.raises(
        DataError, match=r"for topic t, has a text with '\\ud800', which is half of a surrogate pair.*give"
    ):
        grouped([record(**part)])


def test_decimals_keep_their_scales_beside_others():
    values = [decimal.Decimal(text) for text in ("1.1", "1.25", "7", "1.1", "2E+3")]
    groups = grouped([record(value, key=value) for value in values])
    found = {group.columns[ROW].to_pylist()[0]: group.columns for group in groups}
    assert {row: columns["value"].cast(pa.string()).to_pylist() for row, columns in found.items()} == {
        0: ["1.1", "1.1"],
        1: ["1.25"],
        2: ["7", "2000"],
    }
    assert all(columns["key"] == columns["value"] for columns in found.values())


def test_decimals_of_several_precisions_stay_together_when_one_does_not_fit():
    values = [decimal.Decimal("1.55"), decimal.Decimal("NaN"), decimal.Decimal("22.25"), decimal.Decimal("1e-90")]
    (group,) = grouped([record(value) for value in values], SKIP)
    assert group.columns["value"].to_pylist() == [decimal.Decimal("1.55"), decimal.Decimal("22.25")]


def test_decimals_of_too_many_digits_are_refused_like_any_other_misfit():
    values = [decimal.Decimal(text) for text in ("1e70", "2e60", "1e90", "3e60")]
    records = [record(value, key=str(row)) for row, value in enumerate(values)]
    (group,) = grouped(records, SKIP)
    assert group.columns["value"].to_pylist() == [values[0], values[1], values[3]]
    assert group.columns["key"].to_pylist() == ["0", "1", "3"]
    assert group.columns[ROW].to_pylist() == [0, 1, 3]
    with pytest.raises(RecordRefusedError, match=r"value_schema.* It is number 2 of its batch"):
        grouped(records)


def test_a_schema_that_cannot_be_read_is_shown():
    with pytest.raises(ConfigError, match="NOSUCHTYPE"):
        grouped([record(1, value_schema="id NOSUCHTYPE")])


class _Shouted(SimpleHeaderConverter):
    def from_connect_header(self, topic: str, schema: t.DataType | None, values: pa.Array) -> pa.Array:
        return super().from_connect_header(topic, schema, pc.utf8_upper(values))


@transform(schema="topic STRING", on="record")
def rerouted(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


@transform(schema="id BIGINT")
def changed(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


class _Author(Predicate):
    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Any) -> None: ...

    def test(self, records: DataFrame) -> Column:
        return records["key"].isNotNull()


def test_only_a_converter_that_keeps_texts_has_records_with_headers_beside_others():
    headers: list[list[tuple[str, Any]]] = [[], [("h", "x"), ("n", None)], [("h", "z")], [("h", None)]]
    records = [record(str(row), headers=given) for row, given in enumerate(headers)]
    for converter, chain, rows in (
        (SimpleHeaderConverter(), [Step(DropHeaders())], [[0, 1, 2, 3]]),
        (_Shouted(), [Step(DropHeaders()), Step(changed())], [[0, 2], [1, 3]]),
        (_Shouted(), [Step(rerouted())], [[0], [1, 2, 3]]),
        (_Shouted(), [Step(DropHeaders(), _Author())], [[0], [1, 2, 3]]),
    ):
        groups = group_records(
            records,
            replace(pipeline(), header_converter=converter, transforms=chain),
            ErrorHandler(ErrorHandling(), records=records),
            structured=True,
        )
        assert [group.columns[ROW].to_pylist() for group in groups] == rows
        assert [group.types.has_headers for group in groups] == [row != rows[0] or len(rows) == 1 for row in rows]


def test_headers_of_many_kinds_stay_with_their_records():
    records = [record("a", headers=[("n", 1), ("s", "x")]), record("b"), record("c", headers=[("z", None), ("n", 2)])]
    (group,) = grouped(records)
    assert group.columns["headers"].to_pylist() == [
        [{"key": "n", "value": b"1"}, {"key": "s", "value": b"x"}],
        [],
        [{"key": "z", "value": None}, {"key": "n", "value": b"2"}],
    ]


def test_schemaless_json_has_bytes_as_base64_and_refuses_other_values():
    assert json_texts([{"b": b"\x00\x01", "t": (1, None)}], "") == ['{"b":"AAE=","t":[1,null]}']
    assert json_texts([{"row": MappingProxyType({"id": 1})}], "") == ['{"row":{"id":1}}']


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"x": float("nan")}, "x is nan, which JSON does not have. Give None in its place"),
        ({"a": 1, "x": object()}, "x is an object, which JSON does not have. Give str(value) in its place"),
        ([decimal.Decimal(1)], "it is a Decimal, which JSON does not have. Give str(value)"),
        ({"a": [{"at": dt.date(2026, 1, 2)}]}, "a.at is a date, which JSON does not have. Give value.isoformat()"),
        ({"x": {1, 2}}, "x is a set, which JSON does not have. Give list(value)"),
        ({"x": np.int64(1)}, "x is an int64, which JSON does not have. Give value.item()"),
        ({"x": np.arange(2)}, "x is a ndarray, which JSON does not have. Give value.tolist()"),
        ({"x": np.datetime64("2026-01-02")}, "x is a datetime64, which JSON does not have. Give str(value)"),
        ({"x": np.datetime64("NaT")}, "x is a datetime64, which JSON does not have. Give None"),
        ({"x": pd.NaT}, "x is a NaTType, which JSON does not have. Give None"),
        ({"x": pd.Timestamp(0)}, "x is a Timestamp, which JSON does not have. Give value.isoformat()"),
        ({"x": {(1, 2): 3}}, "x has the name (1, 2), which is a tuple. Give a text in its place"),
    ],
)
def test_values_that_json_cannot_hold_are_refused_with_a_replacement(value: object, told: str):
    with pytest.raises(DataError, match=re.escape(told)) as refused:
        json_texts([{"id": 1}, value], "The value")
    assert "value_schema" in str(refused.value)


@pytest.mark.parametrize(
    ("value", "pair", "name"),
    [
        ({1: "a", "1": "b"}, "1 and '1'", "1"),
        ({"x": [{"true": 0, True: 1}]}, "'true' and True", "true"),
        (({"null": 0, "o": {}, None: 1},), "'null' and None", "null"),
        ({"a": {"1.5": 0, 1.5: 1}}, "'1.5' and 1.5", "1.5"),
    ],
)
def test_keys_that_json_gives_one_name_are_refused(value: object, pair: str, name: str):
    with pytest.raises(DataError, match=f"{pair} are keys of one dict, and both have the name '{name}' in JSON"):
        json_texts([{"id": 1}, value], "The value")


def test_keys_that_are_no_texts_are_texts_in_json():
    value = {1: "a", "2": {3: "b"}, None: [{True: 1}]}
    assert json_texts([{"id": 1}, value], "") == ['{"id":1}', '{"1":"a","2":{"3":"b"},"null":[{"true":1}]}']


def test_flat_structures_are_the_json_of_the_standard_library():
    values: list[Any] = [
        {"": '"\\\n\x7f\u2028é😀\ud800', "n": -(10**30), "f": 1e16, "z": -0.0, "s": 5e-324, "t": True, "x": None},
        {},
        {"kind": _Text("a"), "level": _Level.LOW},
    ]
    assert json_texts(values, "") == [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values]


def test_values_that_contain_themselves_or_are_too_deep_are_refused():
    circle: list[object] = []
    circle.append(circle)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, deep):
        with pytest.raises(DataError, match="cannot be written without a schema"):
            json_texts([value], "The value")


def test_structured_groups_have_the_same_fields_at_all_depths():
    assert signature({"a": {"x": 1}}) != signature({"a": {"y": 1}})
    assert signature({"a": [{"x": 1}, {"x": 2}]}) == signature({"a": [{"x": 3}]})
    groups = grouped([record({"a": {"x": 1}}), record({"a": {"y": 1}})], structured=True)
    assert [g.columns["value"].to_pylist() for g in groups] == [[{"a": {"x": 1}}], [{"a": {"y": 1}}]]


VALUES = {
    "ByteArrayConverter": b"x",
    "ShortConverter": 1,
    "IntegerConverter": 1,
    "LongConverter": 1,
    "BooleanConverter": True,
}
SCHEMAS = {"ShortConverter": "SMALLINT", "IntegerConverter": "INT", "FloatConverter": "FLOAT"}


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("name", sorted(converters.__all__))
def test_a_null_without_a_schema_is_null_in_every_format(name: str, *, beside: bool) -> None:
    """The null is a value, key or header, alone or with other records in the batch."""
    header = find_plugin(PluginKind.HEADER_CONVERTER, name, property_name="header.converter", sources=ANY_MODULE)()
    header.configure({})
    steps = replace(pipeline(), header_converter=header)
    if name != "SimpleHeaderConverter":
        steps = replace(steps, key_converter=header, value_converter=header)
    full = VALUES.get(name, 1.5)
    given = [SourceRecord({}, {}, "t", None, key=None, headers=[("h", None)])]
    if beside:
        schema = SCHEMAS.get(name)
        more = {} if name in SCHEMAS or name == "SimpleHeaderConverter" else {"headers": [("h", full), ("h", None)]}
        given.append(SourceRecord({}, {}, "t", full, value_schema=schema, key=full, key_schema=schema, **more))  # type: ignore[arg-type]
        given.append(SourceRecord({}, {}, "t", None, key=full, key_schema=schema))
        given.append(SourceRecord({}, {}, "t", full, value_schema=schema, key=None))
    errors = ErrorHandler(steps.errors)
    groups = group_records(given, steps, errors)
    (found,) = in_record_order(
        part for group in groups for part in convert(group.columns, group.types, steps, errors, "t")
    )
    records = found.records
    assert [value is None for value in records.value.to_pylist()] == [one.value is None for one in given]
    keys = [None] * len(given) if records.key is None else records.key.to_pylist()
    assert [key is None for key in keys] == [one.key is None for one in given]
    assert records.headers is not None
    found_headers = [[pair["value"] is None for pair in pairs or []] for pairs in records.headers.to_pylist()]
    assert found_headers == [[value is None for _, value in one.headers] for one in given]
