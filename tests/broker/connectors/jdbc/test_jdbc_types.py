"""Each type of PostgreSQL: its Connect type, and that its values are equal to psycopg's."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from fencepost.api.errors import DataError
from fencepost.connectors.jdbc.postgres.reader import PolledRows
from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.jdbc_readers import TableReading
from tests.support.postgres import Database

NAN, INFINITY = math.nan, math.inf

# The PostgreSQL type, its Connect type, and values of it as SQL.
TYPES: list[tuple[str, str, list[str]]] = [
    ("boolean", "boolean", ["true", "false"]),
    ("smallint", "smallint", ["-32768", "32767"]),
    ("integer", "int", ["-2147483648", "2147483647"]),
    ("bigint", "bigint", ["-9223372036854775808", "9223372036854775807"]),
    ("oid", "bigint", ["0", "4294967295"]),
    ("xid8", "bigint", ["'0'", "'9223372036854775807'"]),
    ("real", "float", ["1.1", "1e-40", "'NaN'", "'Infinity'", "'-Infinity'"]),
    ("double precision", "double", ["0.1", "5e-324", "'NaN'", "'Infinity'", "'-Infinity'", "'-0'"]),
    ("numeric(12,2)", "decimal(12,2)", ["0", "-9999999999.99", "0.1"]),
    ("numeric(38,38)", "decimal(38,38)", ["0.99999999999999999999999999999999999999"]),
    ("numeric(3,-2)", "decimal(5,0)", ["12345", "-100"]),
    ("numeric(2,4)", "decimal(4,4)", ["0.0012"]),
    ("numeric(39,1)", "string", ["99999999999999999999999999999999999999.9", "'NaN'"]),
    ("numeric", "string", ["0.10", "1e100", "'NaN'", "'Infinity'"]),
    ("money", "string", ["1.5"]),
    ("text", "string", ["''", "'NULL'", "E'a\"b,c\\r\\n\\t\\\\.'", "U&'\\FEFFx\\+01F600'", "repeat('x', 100000)"]),
    ("varchar(5)", "string", ["'ab'"]),
    ("char(5)", "string", ["'ab'"]),
    ("name", "string", ["'ab'"]),
    ('"char"', "string", ["'a'"]),
    ("uuid", "string", ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"]),
    ("json", "string", ["""'{"b": 1,  "a": null}'""", "'null'"]),
    ("jsonb", "string", ["""'{"b": 1.10,  "a": "\\u00e4"}'"""]),
    ("jsonpath", "string", ["'$.a[*]'"]),
    ("bytea", "binary", ["''", "'\\x00ff0a22'"]),
    ("date", "date", ["'1969-12-31'", "'0001-01-01'", "'9999-12-31'"]),
    ("timestamp", "timestamp", ["'2020-02-29 23:59:59.999999'", "'0001-01-01'"]),
    ("timestamp(0)", "timestamp", ["'1969-12-31 23:59:59'"]),
    ("timestamptz", "timestamp", ["'2020-03-29 02:30:00+05:45'", "'9999-12-31 23:59:59.000001+00'"]),
    ("time", "string", ["'24:00:00'", "'00:00:00.000001'"]),
    ("timetz", "string", ["'12:00:00-15:59'"]),
    ("interval", "string", ["'1 year -3 days 04:05:06.7'"]),
    ("inet", "string", ["'::1/64'", "'10.0.0.1'"]),
    ("cidr", "string", ["'10.0.0.0/8'"]),
    ("macaddr", "string", ["'08:00:2b:01:02:03'"]),
    ("macaddr8", "string", ["'08:00:2b:01:02:03:04:05'"]),
    ("bit(3)", "string", ["b'101'"]),
    ("varbit", "string", ["b''"]),
    ("tsvector", "string", ["'a:1 b:2A'"]),
    ("tsquery", "string", ["'a & !b'"]),
    ("point", "string", ["'(1.5,NaN)'"]),
    ("box", "string", ["'(1,1),(0,0)'"]),
    ("polygon", "string", ["'((0,0),(1,1),(1,0))'"]),
    ("pg_lsn", "string", ["'16/B374D848'"]),
    ("pg_snapshot", "string", ["'10:20:10,14'"]),
    ("regclass", "string", ["'pg_class'"]),
    ("int4range", "string", ["'[1,5]'", "'empty'", "'(,3)'"]),
    ("tstzrange", "string", ["""'["2020-01-01 00:00:00+01",infinity)'"""]),
    ("datemultirange", "string", ["'{[2020-01-01,2020-02-01)}'"]),
    ("mood", "string", ["'sad'", "'very \"happy\"'"]),
    ("positive", "decimal(6,1)", ["1.5"]),
    ("complex", "string", ["row(1.5, 'a b')"]),
    ("integer[]", "array<int>", ["'{}'", "'{1,NULL,-3}'", "'[0:1]={1,2}'"]),
    ("numeric(4,1)[]", "array<decimal(4,1)>", ["'{1.5,NULL}'"]),
    ("text[]", "array<string>", ["array['', 'NULL', null, E'a\"b,c\\\\{}\\n', ' x ']"]),
    ("bytea[]", "array<binary>", ["array['\\x00ff'::bytea, null]"]),
    ("boolean[]", "array<boolean>", ["'{t,f,NULL}'"]),
    ("timestamptz[]", "array<timestamp>", ["array['2020-01-01 00:00:00+01'::timestamptz]"]),
    ("date[]", "array<date>", ["'{2020-01-01,NULL}'"]),
    ("uuid[]", "array<string>", ["'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'"]),
    ("mood[]", "array<string>", ["'{sad}'"]),
    ("positive[]", "array<decimal(6,1)>", ["'{1.5}'"]),
    ("json[]", "array<string>", ["""array['{"a": "b,c"}'::json]"""]),
    ("box[]", "string", ["'{(1,1),(0,0);(2,2),(1,1)}'"]),
    ("int2vector", "string", ["'1 2 3'"]),
]

# Values that cannot be represented: the type, the value, and the error message.
REFUSED = [
    ("numeric(5,2)", "NaN", "a decimal has no such value"),
    ("date", "infinity", "'infinity' is not a date or time"),
    ("timestamptz", "-infinity", "'-infinity' is not a date or time"),
    ("timestamp", "294276-01-01", "later than the year 294246"),
    ("integer[]", "{{1,2},{3,4}}", "several dimensions"),
    ("timestamp[]", "{{2020-01-01}}", "several dimensions"),
    ("date[]", "{infinity}", "'infinity' is not a date or time"),
    ("xid8", "18446744073709551615", "does not fit into 64 bits"),
]


@pytest.fixture(scope="module")
def of_module(postgres: EmbeddedPostgres) -> Iterator[Database]:
    """A database with some types, shared by the module's tests: creating it takes longer than a test."""
    with Database(postgres) as database:
        yield _with_types(database)


@pytest.fixture
def types(of_module: Database) -> Database:
    """The database with types, without the table `t`."""
    of_module.execute("drop table if exists t")
    return of_module


def _with_types(database: Database) -> Database:
    database.execute("create type mood as enum ('sad', 'very \"happy\"')")
    database.execute("create domain whole as numeric(6,1)")
    database.execute("create domain positive as whole check (value > 0)")
    database.execute("create type complex as (r numeric, t text)")
    return database


def same(found: Any, expected: Any) -> bool:
    """Whether two values are equal and of one type; NaN is equal to itself."""
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(found)
    if isinstance(expected, dt.datetime):
        return bool(found == expected.astimezone(dt.UTC))
    return bool(found == expected) and str(found) == str(expected)


def as_psycopg_reads(database: Database, kind: str, becomes: str) -> Iterator[Any]:
    """The column's values as psycopg reads them; as text where its type becomes a string; timestamps in UTC."""
    # Like COPY and unlike a cast, format() calls the type's output function.
    expression = "case when v is not null then format('%%s', v) end" if becomes == "string" else "v"
    if kind.startswith("timestamp(") or kind == "timestamp":
        expression = "v at time zone 'UTC'"
    if becomes == "array<string>":
        expression = "v::text[]"
    elif becomes.startswith("array<decimal"):
        expression = "v::numeric[]"
    elif kind in ("oid", "xid8"):
        expression = "v::text::numeric::bigint"
    with psycopg.connect(database.conninfo, options="-c timezone=UTC -c intervalstyle=iso_8601") as connection:
        for (value,) in connection.execute(f"select {expression} from t order by id", ()).fetchall():  # noqa: S608
            yield struct.unpack("f", struct.pack("f", value))[0] if kind == "real" and value is not None else value


def read_in_ranges(reading: TableReading) -> pa.RecordBatch:
    """All rows as a large read returns them: in COPY's binary format if all columns have a binary form."""
    found = reading.reader.source.read_in_ranges("true", {})
    (select,) = found.selects
    try:
        (batch,) = found.reader.read(select)
    finally:
        found.export.close()
    return batch


@pytest.mark.parametrize(("kind", "becomes", "literals"), TYPES, ids=[kind for kind, _, _ in TYPES])
def test_values_equal_the_values_that_psycopg_reads(
    types: Database, kind: str, becomes: str, literals: list[str]
) -> None:
    types.execute(f"create table t(id int generated always as identity, v {kind})")
    for literal in ["null", *literals]:
        types.execute(f"insert into t(v) values ({literal})")  # noqa: S608

    with TableReading(types) as reading:
        found = reading.reader.read(reading.server)
        in_ranges = read_in_ranges(reading)

    assert isinstance(found, PolledRows)
    assert found.shape.struct["v"].dataType.simpleString() == becomes
    rows = sorted(found.rows["value"].to_pylist(), key=lambda row: row["id"])
    assert in_ranges.schema == found.rows.schema
    assert [str(row) for row in in_ranges["value"].to_pylist()] == [str(row) for row in rows]
    expected = list(as_psycopg_reads(types, kind, becomes))
    assert len(rows) == len(expected) == len(literals) + 1
    for row, value in zip(rows, expected, strict=True):
        assert (row["v"] is None) == (value is None), (row["v"], value)
        assert value is None or same(row["v"], value), (row["v"], value)


@pytest.mark.parametrize(("kind", "value", "why"), REFUSED, ids=[f"{kind} {value}" for kind, value, _ in REFUSED])
def test_values_without_representation_are_refused_by_name(types: Database, kind: str, value: str, why: str) -> None:
    types.execute(f"create table t(id int, v {kind})")
    types.execute("insert into t values (1, %s)", (value,))

    with TableReading(types) as reading, pytest.raises(DataError, match=why) as refused:
        reading.poll()
    with TableReading(types) as again, pytest.raises(DataError) as refused_in_range:
        read_in_ranges(again)

    assert str(refused_in_range.value) == str(refused.value)
    assert f'The column "v" ({reading.reader.source._known[1].type.text}) of the table public.t' in str(refused.value)  # type: ignore[index]


def test_days_and_moments_beyond_pythons_range_are_counted(types: Database) -> None:
    types.execute("create table t(v date, w timestamptz)")
    values = [
        ("4713-01-01 BC", "4713-01-01 BC"),
        ("0001-12-31 BC", "0001-12-31 23:59:59.5+00 BC"),
        ("10000-01-01", "10000-01-01 00:00:00+00"),
        ("5874897-12-31", "294246-12-31 23:59:59.999999+00"),
    ]
    for value in values:
        types.execute("insert into t values (%s, %s)", value)
    expected = types.execute(
        "select (v - date '1970-01-01')::bigint, (extract(epoch from w) * 1000000)::bigint from t order by v"
    )

    with TableReading(types) as reading:
        found = reading.reader.read(reading.server)
        in_ranges = read_in_ranges(reading)

    assert isinstance(found, PolledRows)
    for batch in (found.rows, in_ranges):
        days = batch["value"].field("v").cast(pa.int32()).to_pylist()
        moments = batch["value"].field("w").cast(pa.int64()).to_pylist()
        assert sorted(zip(days, moments, strict=True)) == expected


@pytest.mark.parametrize(
    ("mapping", "becomes"),
    [
        ("precision_only", ["tinyint", "smallint", "int", "bigint", "decimal(19,0)", "decimal(5,2)", "string"]),
        ("best_fit", ["tinyint", "smallint", "int", "bigint", "decimal(19,0)", "double", "double"]),
    ],
)
def test_numeric_mapping_chooses_the_type_of_numbers(types: Database, mapping: str, becomes: list[str]) -> None:
    types.execute(
        "create table t(a numeric(2), b numeric(4), c numeric(9), d numeric(18), e numeric(19), f numeric(5,2), g numeric)"
    )
    types.execute("insert into t values (99, 9999, 999999999, 999999999999999999, 1, 1.5, 'NaN')")

    with TableReading(types, {"numeric.mapping": mapping}) as reading:
        found = reading.reader.read(reading.server)
        in_ranges = read_in_ranges(reading)

    assert isinstance(found, PolledRows)
    assert [field.dataType.simpleString() for field in found.shape.struct] == becomes
    assert str(in_ranges.to_pylist()) == str(found.rows.to_pylist())
    numbers = [float(value) for value in found.rows["value"][0].as_py().values()]
    assert numbers[:6] == [99, 9999, 999_999_999, 1e18, 1, 1.5]


def test_timestamps_without_a_zone_are_of_db_timezone(types: Database) -> None:
    types.execute("create table t(v timestamp, a timestamp[])")
    types.execute(
        "insert into t values ('2020-07-01 12:00:00', '[3:4]={2020-07-01 12:00:00,NULL}'), (null, '{}'), (null, null)"
    )

    with TableReading(types, {"db.timezone": "Europe/Berlin"}) as reading:
        found = reading.poll()

    moment = dt.datetime(2020, 7, 1, 10, tzinfo=dt.UTC)
    assert [(row["v"], row["a"]) for row in found] == [(moment, [moment, None]), (None, []), (None, None)]


def test_a_table_with_one_column_has_its_nulls(types: Database) -> None:
    types.execute("create table t(v text)")
    types.execute("insert into t values (null), (''), (E'\\\\.'), (null)")

    with TableReading(types, {"mode": "bulk"}) as reading:
        assert [row["v"] for row in reading.poll()] == [None, "", "\\.", None]


def test_names_that_sql_would_fold_or_end_are_read(types: Database) -> None:
    types.execute('create table t("a""b" int not null, "SELECT" int, "ä,ö" int, "100%" int)')
    types.execute("insert into t values (1, 2, 3, 4)")

    with TableReading(types) as reading:
        assert reading.poll() == [{'a"b': 1, "SELECT": 2, "ä,ö": 3, "100%": 4}]
        assert reading.config.topic("t") == "p-t"


def test_the_page_lists_every_type_that_is_tested() -> None:
    page = (Path(__file__).parents[4] / "docs" / "connectors" / "jdbc.md").read_text()

    for kind, _, _ in TYPES:
        if kind.removesuffix("[]") not in ("mood", "positive", "complex"):
            assert f"`{kind.partition('(')[0].removesuffix('[]')}" in page, kind
