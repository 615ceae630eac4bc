from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fencepost import ConfigError, DataError
from fencepost.api.schema_name import SCHEMA_METADATA, field_identity, named_field
from fencepost.converters.simple_header_converter import SimpleHeaderConverter
from fencepost.engine.job_failure import JobFailure
from fencepost.transforms.base import is_planned_by_schema
from fencepost.transforms.chain import Step, apply_chain
from fencepost.transforms.sql import Sql, SqlPredicate
from tests.unit.transforms.support import Records, applied, plain, predicate

VALUE = (
    "STRUCT<id: INT, email: STRING, op: STRING, items: ARRAY<STRUCT<sku: STRING, count: INT>>, tags: MAP<STRING, INT>>"
)
FIRST = {"key": "k1", "value": (1, "a@b", "c", [("x", 1), ("y", 2)], {"red": 1}), "timestamp": 5, "partition": 2}
SECOND = {"key": "k2", "value": (2, None, "r", [], None)}
TOMBSTONE = {"key": "k3", "value": None}
RECORDS = Records(VALUE, [FIRST, SECOND, TOMBSTONE], key="STRING")


def sql(**properties: str) -> Step:
    transform = Sql()
    transform.configure({name.replace("_", "."): value for name, value in properties.items()})
    return Step(transform)


def condition(text: str, **properties: str) -> SqlPredicate:
    found = SqlPredicate()
    found.configure({"condition": text} | properties)
    return found


def rows(spark: SparkSession, records: Records, *chain: Step) -> list[dict[str, Any]]:
    return [plain(row) for row in apply_chain(records.frame(spark), chain).collect()]


def test_select_replaces_listed_columns_and_keeps_all_others(spark: SparkSession) -> None:
    step = sql(select="topic, upper(key) AS key, named_struct('id', value.id, 'hash', sha2(value.email, 256)) AS value")
    first = rows(spark, RECORDS, step)[0]
    assert first["key"] == "K1"
    assert first["value"]["id"] == 1
    assert len(first["value"]["hash"]) == 64
    assert (first["topic"], first["partition"], first["timestamp"]) == ("t", 2, 5)


def test_expressions_see_the_record_as_it_was(spark: SparkSession) -> None:
    found = rows(spark, RECORDS, sql(select="key AS topic, topic AS key, concat(topic, key) AS value"))
    assert [(row["topic"], row["key"], row["value"]) for row in found] == [
        ("k1", "t", "tk1"), ("k2", "t", "tk2"), ("k3", "t", "tk3"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("value.op <> 'r'", ["k1"]),
        ("value.op = 'r'", ["k2"]),
        ("value IS NULL", ["k3"]),
        ("key LIKE 'k%'", ["k1", "k2", "k3"]),
    ],
)
def test_where_keeps_matching_records(spark: SparkSession, condition: str, kept: list[str]) -> None:
    assert applied(spark, RECORDS, sql(where=condition), column="key") == kept


def test_single_columns_are_expressions(spark: SparkSession) -> None:
    step = sql(
        topic="concat('orders.', value.op)", key="value.id", timestamp="1000L", partition="value.id + 1",
        headers="map('op', value.op)",
    )  # fmt: skip
    first, _, tombstone = rows(spark, RECORDS, step)
    assert (first["topic"], first["key"], first["timestamp"], first["partition"]) == ("orders.c", 1, 1000, 2)
    assert first["headers"] == [{"key": "op", "value": b"c"}]
    assert tombstone["topic"] == "t", "a topic that is null stays"
    assert tombstone["key"] is None


ADDED = {"key": "new", "value": b"1"}
KEPT = {"key": "old", "value": b"0"}


@pytest.mark.parametrize("given", [[{}, {"headers": [KEPT]}], [{}]], ids=["some", "none"])
def test_a_record_without_headers_has_an_empty_array(spark: SparkSession, given: list[dict[str, Any]]) -> None:
    records = Records("STRUCT<id: INT>", [row | {"value": {"id": 1}} for row in given])
    new = "named_struct('key', 'new', 'value', '1')"
    appended = applied(spark, records, sql(headers=f"array_append(headers, {new})"), column="headers")
    assert appended == [[*row.get("headers", []), ADDED] for row in given]
    assert applied(spark, records, sql(where="NOT exists(headers, h -> h.key = 'old')"), column="headers") == [None]
    names = applied(spark, records, sql(value="struct(size(headers) AS n, headers.key AS keys)"))
    assert names == [
        {"n": len(row.get("headers", [])), "keys": [header["key"] for header in row.get("headers", [])]}
        for row in given
    ]


ZULU = "2024-01-01T02:03:04.005Z"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("struct(1 AS a, 'x' AS b)", '{"a":1,"b":"x"}'),
        ("array(1, 2)", "[1,2]"),
        (f"TIMESTAMP'{ZULU}'", ZULU),
        ("TIMESTAMP_NTZ'2024-01-01 02:03:04.005678'", ZULU),
        ("1e10", "1.0E10"),
    ],
)
def test_values_beside_converted_headers_are_written_as_alone(spark: SparkSession, value: str, written: str) -> None:
    """A struct keeps the names of its fields, and a time is not shown in the session's zone."""
    records = Records("STRUCT<id: INT>", [{"value": {"id": 1}}])
    found = applied(spark, records, sql(headers=f"map('h', {value})"), column="headers")
    assert found == [[{"key": "h", "value": written.encode()}]]
    (alone,) = spark.sql(f"SELECT {value} AS v").toArrow()["v"].chunks
    assert SimpleHeaderConverter().from_connect_header("t", None, alone).to_pylist() == [written.encode()]


@pytest.mark.parametrize("given", [{}, {"headers": [{"key": "op", "value": b"\xe9"}]}], ids=["none", "bytes"])
def test_the_values_of_headers_are_texts(spark: SparkSession, given: dict[str, Any]) -> None:
    records = Records("STRUCT<id: INT>", [given | {"value": {"id": 1}}])
    kinds = applied(spark, records, sql(value="typeof(headers)"))
    assert kinds == ["array<struct<key:string,value:string>>"]
    new = "named_struct('key', 'new', 'value', '1')"
    appended = applied(spark, records, sql(headers=f"array_append(headers, {new})"), column="headers")
    assert appended == [[*given.get("headers", []), ADDED]], "bytes stay as they are"


@pytest.mark.parametrize(
    "value", ["struct(1 AS x, 2 AS x)", "array(struct(1 AS x, 2 AS x))", "struct(value.*, 2 AS id)"]
)
def test_a_field_twice_is_refused(spark: SparkSession, value: str) -> None:
    records = Records("STRUCT<id: INT>", [{"value": {"id": 1}}])
    with pytest.raises(DataError, match=r"Sql gives value the field (x|id) twice, of which readers would see one"):
        applied(spark, records, sql(value=value))


def test_a_timestamp_may_be_a_time(spark: SparkSession) -> None:
    assert applied(spark, RECORDS, sql(timestamp="timestamp_seconds(value.id)"), column="timestamp") == [
        1000,
        2000,
        None,
    ]


@pytest.mark.parametrize("column", ["timestamp", "partition"])
@pytest.mark.parametrize("number", ["1.5D", "1.5", "CAST('NaN' AS DOUBLE)", "CAST(0.25 AS FLOAT)", "-1.5"])
def test_a_fraction_is_refused_and_not_cut_off(spark: SparkSession, column: str, number: str) -> None:
    with pytest.raises(
        PySparkException, match=rf"Sql gives {column} \S+, but .* must be whole: use floor\(\) or round\(\)"
    ):
        applied(spark, RECORDS, sql(**{column: number}), column=column)


@pytest.mark.parametrize("number", ["2.0D", "2.00", "CAST(2 AS FLOAT)", "floor(2.5)", "round(1.5)", "'2'"])
def test_whole_numbers_of_any_type_are_timestamps_and_partitions(spark: SparkSession, number: str) -> None:
    (first, *_) = rows(spark, RECORDS, sql(timestamp=number, partition=number))
    assert (first["timestamp"], first["partition"]) == (2, 2)


def test_a_select_with_a_star_keeps_all_columns(spark: SparkSession) -> None:
    assert applied(spark, RECORDS, sql(select="*, lower(topic) AS topic", where="value.id = 1"), column="key") == ["k1"]


def test_fields_may_be_left_out_of_a_struct(spark: SparkSession) -> None:
    found = applied(spark, RECORDS, sql(value="struct(value.* EXCEPT (items, tags, email))"))
    assert found[0] == {"id": 1, "op": "c"}


def test_lambdas_and_items_of_arrays_and_maps_are_used(spark: SparkSession) -> None:
    step = sql(
        value="struct(transform(value.items, i -> i.count + value.id) AS counts, value.items[0].sku AS sku, value.tags['red'] AS red)",
        where="value.id = 1",
    )
    assert applied(spark, RECORDS, step) == [{"counts": [2, 3], "sku": "x", "red": 1}]


def test_explode_makes_a_record_of_each_item_in_order(spark: SparkSession) -> None:
    step = sql(explode="value.items", select="concat(key, item.sku) AS key, struct(value.id, item.*) AS value")
    found = rows(spark, RECORDS, step)
    assert [(row["key"], row["value"], row["__fencepost_row"]) for row in found] == [
        ("k1x", {"id": 1, "sku": "x", "count": 1}, 0),
        ("k1y", {"id": 1, "sku": "y", "count": 2}, 0),
    ]


def test_where_may_name_the_item(spark: SparkSession) -> None:
    step = sql(explode="value.items", where="item.count > 1", value="item.sku")
    assert applied(spark, RECORDS, step) == ["y"]


def test_records_that_a_predicate_does_not_select_pass_an_explode_once(spark: SparkSession) -> None:
    step = sql(explode="value.items", key="concat(key, item.sku)", where="item.count > 1")
    step = Step(step.transform, condition("value.op = 'c'"))
    found = rows(spark, RECORDS, step)
    assert [row["key"] for row in found] == ["k1y", "k2", "k3"]


def test_expressions_are_not_evaluated_for_records_that_a_predicate_does_not_select(spark: SparkSession) -> None:
    step = sql(key="CAST(CAST(value.op AS INT) AS STRING)", explode="array(CAST(value.op AS INT))", where="item > 5")
    numbers = RECORDS.with_rows({"key": "n", "value": (1, None, "7", [], None)}, FIRST)
    step = Step(step.transform, condition("value.op = '7'"))
    assert applied(spark, numbers, step, column="key") == ["7", "k1"]


def test_a_map_is_not_exploded(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="map_entries"):
        applied(spark, RECORDS, sql(explode="value.tags"))


def test_a_missing_field_is_refused_or_null(spark: SparkSession) -> None:
    with pytest.raises(DataError, match=r"needs the field value.name in value.*there are: id, email, op, .*\. Correct"):
        applied(spark, RECORDS, sql(value="value.name"))
    with pytest.raises(
        DataError, match=r"needs the field value.emial in .* \(did you mean email\?\)\. Correct"
    ) as failure:
        applied(spark, RECORDS, sql(value="value.emial"))
    assert failure.value.name == "value"
    given = {
        "value": "struct(value.id, CAST(value.name.first AS STRING) AS name, coalesce(value.items[0].size, 7) AS size)"
    }
    assert applied(spark, RECORDS, sql(missing="null", **given))[0] == {"id": 1, "name": None, "size": 7}
    assert applied(spark, RECORDS, sql(missing="null", where="value.nothing = 'x'")) == []


@pytest.mark.parametrize("kind", ["ARRAY<STRUCT<sku: STRING>>", "ARRAY<BIGINT>", "ARRAY<VOID>"])
def test_a_field_that_the_items_of_an_array_do_not_have_is_missing(spark: SparkSession, kind: str) -> None:
    records = Records(kind, [{"value": None}, {"value": []}])
    given = "struct(CAST(value.price AS ARRAY<INT>) AS prices)"
    assert applied(spark, records, sql(missing="null", value=given)) == [{"prices": None}] * 2
    if kind != "ARRAY<VOID>":
        with pytest.raises(DataError, match=r"needs the field value\.price in value, which these records do not have"):
            applied(spark, records, sql(value=given))


def test_a_field_of_values_that_are_all_null_is_null(spark: SparkSession) -> None:
    tombstones = Records("VOID", [TOMBSTONE], key="STRING")
    assert applied(spark, tombstones, sql(where="value.op <> 'r'")) == []
    assert applied(spark, tombstones, sql(where="value.items[0].sku IS NULL")) == [None]
    assert applied(spark, tombstones, sql(where="exists(value.items, i -> i.sku = value.id) IS NULL")) == [None]
    assert applied(spark, tombstones, sql(explode="value.items")) == []


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("named_struct('id', value.id, 'a', NULL)", "value.a"),
        ("struct(value.name)", "value.name"),
        ("array(named_struct('a', NULL))", "value[].a"),
        ("map('a', NULL)", "value[]"),
    ],
)
def test_a_field_without_a_type_is_refused(spark: SparkSession, value: str, named: str) -> None:
    told = rf"^Sql makes {re.escape(named)} a null without a type in select, .* CAST\(NULL AS STRING\)"
    with pytest.raises(DataError, match=told) as failure:
        applied(spark, RECORDS, sql(select=f"key, {value} AS value", missing="null"))
    assert failure.value.name == "select"


def test_nulls_of_schemaless_records_need_no_type(spark: SparkSession) -> None:
    schemaless = Records("STRUCT<a: VOID, b: INT>", [{"value": (None, 1)}])
    assert applied(spark, schemaless, sql(value="struct(value.a, value.b AS c)")) == [{"a": None, "c": 1}]


def test_the_expression_null_makes_tombstones(spark: SparkSession) -> None:
    assert applied(spark, RECORDS, sql(value="NULL")) == [None] * 3


def test_the_new_value_has_a_schema_name(spark: SparkSession) -> None:
    step = sql(value="struct(value.id)", schema_name="shop.Order")
    frame = apply_chain(RECORDS.frame(spark), [step])
    assert frame.schema["value"].metadata == {SCHEMA_METADATA: {"name": "shop.Order"}}
    with pytest.raises(DataError, match="only structs have names"):
        applied(spark, RECORDS, sql(value="value.id", schema_name="shop.Order"))


def test_fields_keep_their_names_in_schemas_and_may_be_null_as_spark_says(spark: SparkSession) -> None:
    records = Records(f"STRUCT<at: BIGINT {named_field('io.debezium.time.Timestamp')}, n: INT>", [{"value": (5, 1)}])
    frame = apply_chain(records.frame(spark), [sql(value="named_struct('when', value.at, 'n', coalesce(value.n, 0))")])
    found = [(one.name, field_identity(one).get("name"), one.nullable) for one in frame.schema["value"].dataType]  # type: ignore[attr-defined]
    assert found == [("when", "io.debezium.time.Timestamp", True), ("n", None, False)]


def test_regular_expressions_and_patterns_of_dates_are_those_of_java(spark: SparkSession) -> None:
    given = r"concat(regexp_extract(key, r'^\p{Alpha}(?<digit>\d)$', 1), date_format(TIMESTAMP '1970-01-02 00:00:00', 'EEE'))"
    assert applied(spark, RECORDS, sql(value=given)) == ["1Fri", "2Fri", "3Fri"]


def test_a_predicate_selects_records(spark: SparkSession) -> None:
    dropping = Sql()
    dropping.configure({"where": "false"})
    for text, left in (("value.op = 'c'", ["k2", "k3"]), ("value.nothing", ["k1", "k2", "k3"])):
        step = Step(dropping, condition(text, missing="null"))
        assert applied(spark, RECORDS, step, column="key") == left
    step = Step(dropping, predicate("RecordIsTombstone"), negate=True)
    assert applied(spark, RECORDS, step, column="key") == ["k3"]


def test_an_error_names_the_expression(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as failure:
        applied(spark, RECORDS, sql(value="struct(CAST(value.email AS INT) AS n)"))
    assert JobFailure.of(failure.value).one_line.endswith("in CAST(value.email AS INT)")


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({}, "nothing to do"),
        ({"select": "value.id"}, "each expression must be one of the columns"),
        ({"select": "value.id AS id"}, "id is none of them"),
        ({"select": "key, topic AS key"}, "there twice"),
        ({"select": "upper(key) AS key", "key": "topic"}, "in select as well"),
        ({"select": "upper(key"}, "brackets are not closed"),
        ({"select": "upper(key) +"}, "Syntax error"),
        ({"where": "key = 'a', topic = 'b'"}, "write one expression"),
        ({"schema.name": "a", "where": "true"}, "set select or value"),
        ({"where": "item.x = 1"}, "there is no column 'item'"),
    ],
)
def test_properties_that_make_no_sense_are_refused(spark: SparkSession, properties: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        applied(spark, RECORDS, sql(**properties))


def test_a_condition_that_is_not_boolean_is_refused(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="BOOLEAN"):
        applied(spark, RECORDS, sql(where="value.email"))


def test_only_deterministic_expressions_are_kept_as_plans(spark: SparkSession) -> None:
    step = sql(key="uuid()", allow_nondeterministic="true")
    assert not is_planned_by_schema(step.transform)
    first, second = (applied(spark, RECORDS, step, column="key") for _ in range(2))
    assert first != second
    assert is_planned_by_schema(sql(key="topic").transform)


def test_literals_of_times_are_in_the_zone_of_the_session_on_each_thread(spark: SparkSession) -> None:
    # Spark's parser uses the time zone of the thread's session, or else of the JVM; no JVM has both of these zones.
    for zone, hours in (("Asia/Tokyo", -9), ("America/Phoenix", 7)):
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", zone)
        step = sql(value="unix_seconds(TIMESTAMP '1970-01-02 00:00:00')", where="value.id = 1")
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(_rows_without_a_session, session, step).result()
        assert [row["value"] for row in found] == [(24 + hours) * 3600]


def _rows_without_a_session(session: SparkSession, step: Step) -> list[dict[str, Any]]:
    records = RECORDS.frame(session)
    session._jvm.org.apache.spark.sql.classic.SparkSession.clearActiveSession()
    return [plain(row) for row in apply_chain(records, (step,)).collect()]
