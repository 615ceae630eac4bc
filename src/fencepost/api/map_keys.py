"""Maps in which a key occurs twice: Arrow allows them, formats such as JSON write both values, but readers see one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def has_key_twice(array: pa.Array) -> bool:
    """Return whether a map, at any depth, has several values for one key. Nested keys are not compared."""
    kind = array.type
    if pt.is_struct(kind):
        return any(map(has_key_twice, array.flatten()))
    if pt.is_list(kind):
        return has_key_twice(array.flatten())
    if not pt.is_map(kind):
        return False
    maps = maps_as_lists(array)
    keys, items = maps.flatten().flatten()
    if pt.is_nested(kind.key_type):
        return has_key_twice(items)
    numbers = np.repeat(np.arange(len(maps)), pc.fill_null(pc.list_value_length(maps), 0).to_numpy())
    pairs = pa.table({"map": numbers, "key": keys})
    return pairs.group_by(["map", "key"]).aggregate([]).num_rows < len(keys) or has_key_twice(items)


def maps_as_lists(maps: pa.Array) -> pa.Array:
    """Return maps as lists of structs with the fields key and value, without a copy."""
    entries = pa.StructArray.from_arrays([maps.keys, maps.items], names=["key", "value"])
    buffers = maps.buffers()[:2]
    return pa.Array.from_buffers(pa.list_(entries.type), len(maps), buffers, offset=maps.offset, children=[entries])
