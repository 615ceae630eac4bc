from __future__ import annotations

import dataclasses
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fencepost.api.plain_values import instead_of, why_no_json


@dataclasses.dataclass
class _Point:
    x: int


@pytest.mark.parametrize(
    ("value", "better"),
    [
        (math.nan, "None"),
        (pd.NaT, "None"),
        (pd.NA, "None"),
        (np.datetime64("NaT"), "None"),
        (np.datetime64("2026-01-01"), "str(value)"),
        (date(2026, 1, 1), "value.isoformat()"),
        (datetime(2026, 1, 1, tzinfo=UTC), "value.isoformat()"),
        (time(1), "value.isoformat()"),
        ({1}, "list(value)"),
        (range(3), "list(value)"),
        (np.int64(1), "value.item()"),
        (np.zeros(2), "value.tolist()"),
        (pd.Series([1]), "list(value)"),
        (pl.Series([1]), "list(value)"),
        (pl.LazyFrame({"a": [1]}), "value.collect().to_dicts()"),
        (_Point(1), "dataclasses.asdict(value)"),
        (_Point, "str(value)"),
        (Decimal(1), "str(value)"),
        (UUID(int=1), "str(value)"),
    ],
)
def test_a_plain_value_is_suggested_that_the_expression_really_gives(value: Any, better: str) -> None:
    assert instead_of(value) == better
    known = {"value": value, "dataclasses": dataclasses}
    assert isinstance(eval(better, known), str | int | float | list | dict | None)  # noqa: S307 - what a reader types


@pytest.mark.parametrize("value", [None, "a", 1, 1.5, b"x", [1, {"a": (2, None)}], {1: "a", None: "b"}])
def test_plain_structures_are_json(value: Any) -> None:
    assert why_no_json(value) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.inf, "it is inf, which JSON does not have. Give None in its place"),
        ({"a": [1, {"b": date(2026, 1, 1)}]}, "a.b is a date, which JSON does not have. Give value.isoformat()"),
        ({"a": {(1, 2): 3}}, "a has the name (1, 2), which is a tuple. Give a text in its place"),
    ],
)
def test_a_value_that_json_lacks_is_named_with_its_place(value: Any, reason: str) -> None:
    assert str(why_no_json(value)).startswith(reason)


def test_a_structure_that_is_too_deep_is_left_to_its_parser() -> None:
    value: Any = math.inf
    for _ in range(100_000):
        value = [value]
    assert why_no_json(value) is None
