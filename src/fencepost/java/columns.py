"""Arrow columns with the records of a Java task's poll. They use the buffers from the JVM without copying them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

_ALIGNMENT: Final = 8
_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


def record_columns(answer: Mapping[str, Any], body: memoryview) -> pa.RecordBatch:
    """Return the columns for SourceBatch.of_columns. `answer` says which buffers exist, and their sizes in bytes."""
    return _Buffers(answer, body).columns()


class _Buffers:
    def __init__(self, answer: Mapping[str, Any], body: memoryview) -> None:
        self._rows: int = answer["rows"]
        self._topics: list[str] = answer["topics"]
        self._parts: dict[str, pa.Buffer] = {}
        whole, at = pa.py_buffer(body), 0
        for name, size in answer["buffers"]:
            self._parts[name] = whole.slice(at, size)
            at += -(-size // _ALIGNMENT) * _ALIGNMENT

    def columns(self) -> pa.RecordBatch:
        rows = self._rows
        found = {"value": self._bytes("value", rows, pa.binary())}
        if "key" in self._parts:
            found["key"] = self._bytes("key", rows, pa.binary())
        if "topic" in self._parts:
            numbers = pa.array(self._numbers("topic", np.int32))
            found["topic"] = pa.DictionaryArray.from_arrays(numbers, pa.array(self._topics)).cast(pa.string())
        for name, kind in (("partition", np.int32), ("timestamp", np.int64)):
            if name in self._parts:
                plain = self._numbers(name, kind)
                found[name] = pa.array(plain, mask=plain == -1)
        if "headers" in self._parts:
            count = int(self._numbers("headers", np.int32)[-1])
            names = self._bytes("header.name", count, pa.string())
            values = self._bytes("header.value", count, pa.binary())
            pairs = pa.StructArray.from_arrays([names, values], fields=list(_HEADER))
            found["headers"] = pa.ListArray.from_buffers(
                pa.list_(_HEADER), rows, [None, self._parts["headers"]], children=[pairs]
            )
        return pa.RecordBatch.from_pydict(found)

    def _bytes(self, name: str, count: int, kind: pa.DataType) -> pa.Array:
        buffers = [self._parts.get(f"{name}.valid"), self._parts[f"{name}.ends"], self._parts[name]]
        return pa.Array.from_buffers(kind, count, buffers)

    def _numbers(self, name: str, kind: type[np.generic]) -> np.ndarray:
        return np.frombuffer(self._parts[name], kind)
