from __future__ import annotations

import pyarrow as pa
import pytest

from fencepost.converters.text import is_constant, valid_only

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("text", ["ab", "", "é"])
def test_equal_texts_are_constant_also_within_other_ones(text: str):
    assert is_constant(pa.array([text, text, text]))
    assert is_constant(pa.array(["x", text, text, "y"]).slice(1, 2))


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["ab", "ba", "ab"]),
        pa.array(["aa", "a", "aaa", "aa"]),
        pa.array(["ab", None, "ab"]),
        pa.array([5, 6, 5]),
        pa.array([5, None, 5]),
    ],
)
def test_different_values_between_equal_ends_are_not_constant(values: pa.Array):
    assert not is_constant(values)


def test_equal_numbers_and_nulls_are_constant():
    assert is_constant(pa.array([5, 5]))
    assert is_constant(pa.nulls(2, pa.float64()))


@pytest.mark.parametrize("values", [pa.array(["ab"]), pa.array([], pa.string()), pa.nulls(1), pa.array([0.0, -0.0])])
def test_few_values_and_other_types_are_not_looked_at(values: pa.Array):
    assert not is_constant(values)


def test_texts_are_null_where_they_or_the_others_are():
    texts = pa.array(["z", "a", "b", None, "d"]).slice(1)
    found = valid_only(texts, pa.array([9, None, 1, 1, 1]).slice(1))
    assert found.to_pylist() == [None, "b", None, "d"]
    found.validate(full=True)
    assert valid_only(texts, pa.array([1, 1, 1, 1])) is texts
