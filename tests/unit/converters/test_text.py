from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.converters.text import Text, is_constant, join_columns, valid_only, with_suffix

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
def test_single_values_and_other_types_count_as_not_constant(values: pa.Array):
    assert not is_constant(values)


def test_texts_are_null_where_they_or_the_others_are():
    texts = pa.array(["z", "a", "b", None, "d"]).slice(1)
    found = valid_only(texts, pa.array([9, None, 1, 1, 1]).slice(1))
    assert found.to_pylist() == [None, "b", None, "d"]
    found.validate(full=True)
    assert valid_only(texts, pa.array([1, 1, 1, 1])) is texts


def _column(texts: list[str | None], before: str) -> pa.Array:
    """These texts repeated many times, as a slice out of the middle of a longer array."""
    repeated = (texts * 300)[:300]
    return pa.array([before, *repeated, before], pa.string()).slice(1, 300)


_COLUMNS = st.one_of(
    st.integers(0, 9).flatmap(lambda width: st.lists(st.text("01", min_size=width, max_size=width), min_size=1)),
    st.lists(st.sampled_from(["ä", "ab", "{}"]), min_size=1),
    st.lists(st.one_of(st.none(), st.text(max_size=4)), min_size=1),
)
_PIECES = st.lists(st.one_of(st.text(max_size=5), st.builds(_column, _COLUMNS, st.text(max_size=3))), max_size=7)


@given(_PIECES, _COLUMNS, st.text(max_size=3))
def test_many_rows_are_joined_like_single_ones(pieces: list[Any], column: list[str | None], around: str):
    texts = [piece if isinstance(piece, str) else Text(piece) for piece in pieces]
    texts.append(Text(_column(column, "x"), around, around[::-1]))
    found = join_columns(texts)
    found.validate(full=True)
    for row in (0, 1, 137, 299):
        single = [
            piece if isinstance(piece, str) else Text(piece.body.slice(row, 1), piece.prefix, piece.suffix)
            for piece in texts
        ]
        assert found[row].as_py() == join_columns(single)[0].as_py()
    assert len(found) == 300


def test_one_longer_and_one_shorter_text_are_not_even():
    texts = ["ab"] * 400
    texts[7], texts[9] = "abc", "a"
    assert join_columns(["<", Text(pa.array(texts)), ">"]).to_pylist() == [f"<{text}>" for text in texts]


def test_a_suffix_goes_to_the_named_rows_of_a_slice_and_nulls_stay():
    texts = pa.array(["x", "a", None, "", "é", "z"]).slice(1, 4)
    assert with_suffix(texts, np.array([0, 2]), ".0").to_pylist() == ["a.0", None, ".0", "é"]
