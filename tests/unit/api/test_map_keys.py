"""Maps with a key twice are found at any depth."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from fencepost.api.map_keys import has_key_twice, maps_as_lists

_MAP = pa.map_(pa.string(), pa.int32())
_ONCE, _TWICE = [("a", 1), ("b", 1)], [("a", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (_MAP, lambda found: found),
        (pa.list_(_MAP), lambda found: [None, found]),
        (pa.struct([("m", _MAP)]), lambda found: {"m": found}),
        (pa.map_(pa.string(), _MAP), lambda found: [("k", found)]),
    ],
)
def test_a_key_twice_in_one_map_is_found(kind: pa.DataType, value: Any):
    assert has_key_twice(pa.array([value(_ONCE), None, value(_TWICE)], kind))
    assert not has_key_twice(pa.array([value(_ONCE), None, value(_ONCE)], kind))


def test_rows_outside_of_a_slice_do_not_count():
    maps = pa.array([_TWICE, _ONCE, None], _MAP)
    assert not has_key_twice(maps.slice(1))
    assert maps_as_lists(maps.slice(1)).to_pylist() == [[{"key": "a", "value": 1}, {"key": "b", "value": 1}], None]
