"""Numerics with more digits than Python's int() accepts by default, in both database sources."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import pytest

from tests.support.jdbc_readers import TableReading
from tests.support.postgres import Database
from tests.support.postgres_task import Topics

# The most digits that PostgreSQL stores, and the first count that Python's int() refuses.
LONG = ("7" * 131_072 + "." + "3" * 16_383, "-" + "9" * (sys.get_int_max_str_digits() + 1))


def as_text(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    unscaled = Decimal(int.from_bytes(value["value"], "big", signed=True))
    sign, digits, _ = unscaled.as_tuple()
    return format(Decimal((sign, digits, -value["scale"])), "f")


@pytest.mark.parametrize(
    ("mode", "expected"), [("precise", LONG), ("string", LONG), ("double", ("inf", "-inf"))], ids=lambda case: case[:6]
)
def test_numerics_of_any_length_are_captured(mode: str, expected: tuple[str, str], topics: Topics, database: Database):
    database.execute("create table t(id int primary key, n numeric, a numeric[])")
    database.execute("insert into t values (0, %s, %s::numeric[])", [LONG[0], list(LONG)])
    topics.change(decimal_handling_mode=mode)
    topics.run()
    database.execute("insert into t values (1, %s, %s::numeric[])", [LONG[1], list(LONG)])
    topics.run()

    found = [value["after"] for _, value in topics.events("public.t")]
    assert [as_text(row["n"]) for row in found] == list(expected)
    assert [[as_text(item) for item in row["a"]] for row in found] == [list(expected)] * 2


@pytest.mark.parametrize("mapping", ["none", "precision_only", "best_fit"])
@pytest.mark.parametrize("mode", ["bulk", "snapshot", "incrementing"])
def test_numerics_of_any_length_are_polled(mode: str, mapping: str, database: Database):
    database.execute("create table t(id int primary key, n numeric)")
    database.execute("insert into t values (0, %s), (1, %s)", LONG)
    config = {"mode": mode, "numeric.mapping": mapping, "incrementing.column.name": "id"}
    with TableReading(database, config) as reading:
        found = [row["n"] for row in reading.poll()]

    assert found == ([float("inf"), float("-inf")] if mapping == "best_fit" else list(LONG))
