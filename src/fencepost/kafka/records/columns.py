"""Columns of records for record batches."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.api.errors import DataError
from fencepost.api.map_keys import maps_as_lists

Row = tuple[bytes, bytes | None]
"""The key and the value of a record. If the value is None, the record is a tombstone."""

RecordHeaders = tuple[tuple[str, bytes], ...]
"""The name and the value of each header of a record."""


class OutgoingRecord(NamedTuple):
    """A record to write. `partition` is None if the hash of the key decides."""

    key: bytes
    value: bytes | None
    headers: RecordHeaders = ()
    partition: int | None = None


HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
"""The type of a headers column."""

_BINARY = pa.binary()
_MAX_OFFSET = 2**31 - 1
_BINARY_LIKE = (pa.types.is_binary, pa.types.is_string, pa.types.is_fixed_size_binary, pa.types.is_null)
# Types whose data may exceed 2 GiB, which 32-bit offsets cannot address. A view array may have several buffers.
_LARGE = (pa.types.is_large_binary, pa.types.is_large_string, pa.types.is_binary_view, pa.types.is_string_view)
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Columns of equal length. Each row is one Kafka record.

    `value` and `key` are binary or large_binary, and their nulls are Kafka's nulls. Without a key column, records have
    no keys. `timestamp` is int64 in milliseconds since the epoch. A record without a timestamp gets the time of
    encoding. `headers` has the type HEADERS; a null list means none. `normalize` converts columns of other types.
    """

    value: pa.Array
    key: pa.Array | None = None
    timestamp: pa.Array | None = None
    headers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.value)

    @property
    def columns(self) -> tuple[pa.Array | None, ...]:
        """Value, key, timestamp and headers."""
        return self.value, self.key, self.timestamp, self.headers

    def slice(self, offset: int, length: int) -> Records:
        """Return `length` records from `offset` on, without a copy."""
        return Records(*(None if column is None else column.slice(offset, length) for column in self.columns))

    def take(self, indices: Any) -> Records:
        """Return the records at `indices` (an integer array of Arrow or numpy), in the order of the indices."""
        if isinstance(indices, np.ndarray):
            rows = np.ascontiguousarray(indices, np.int64)
            indices = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)])
        return Records(*(None if column is None else column.take(indices) for column in self.columns))

    @classmethod
    def of_rows(cls, rows: Sequence[Row]) -> Records:
        """Return records with these keys and values, less than 2 GiB of either."""
        # The columns are built from buffers: to convert its first Python list, Arrow would import pandas, which takes a
        # third of a second.
        return cls(value=_binary([value for _, value in rows]), key=_binary([key for key, _ in rows]))

    @classmethod
    def of(cls, records: Sequence[OutgoingRecord]) -> Records:
        """Return the records as columns: their keys, values and headers, less than 2 GiB of each."""
        plain = cls.of_rows([(record.key, record.value) for record in records])
        if not any(record.headers for record in records):
            return plain
        return cls(value=plain.value, key=plain.key, headers=_header_lists([record.headers for record in records]))

    @classmethod
    def concat(cls, parts: Sequence[Records]) -> Records:
        """Return all records of `parts`, in order. There must be at least one part."""
        if len(parts) == 1:
            return parts[0]
        lengths = [len(part) for part in parts]
        return cls(*(_concat(columns, lengths) for columns in zip(*(part.columns for part in parts), strict=True)))


def _header_lists(rows: Sequence[RecordHeaders]) -> pa.Array:
    names = _binary([name.encode() for headers in rows for name, _ in headers], pa.string())
    values = _binary([value for headers in rows for _, value in headers])
    structs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    ends = _ends(len(headers) for headers in rows)
    return pa.ListArray.from_buffers(HEADERS, len(rows), [None, ends], children=[structs])


def _binary(values: Sequence[bytes | None], kind: pa.DataType = _BINARY) -> pa.Array:
    ends = _ends(len(value or b"") for value in values)
    validity = None
    if None in values:
        present = np.array([value is not None for value in values])
        validity = pa.py_buffer(np.packbits(present, bitorder="little"))
    data = pa.py_buffer(b"".join(value or b"" for value in values))
    return pa.Array.from_buffers(kind, len(values), [validity, ends, data])


def _ends(lengths: Iterable[int]) -> pa.Buffer:
    """Return Arrow's offsets for values of these lengths."""
    return pa.py_buffer(array("i", accumulate(lengths, initial=0)))


def normalize(value: Any, *, key: Any = None, timestamp: Any = None, headers: Any = None) -> Records:
    """Return records from Arrow columns (arrays or chunked arrays) of other systems.

    `value` and `key` may be binary, string, fixed-size, large, view, dictionary or null columns. `timestamp` may be any
    integer column (milliseconds), or any timestamp column, which is rounded down to milliseconds. `headers` may be any
    kind of list of structs, or a map: the first two fields are the name and the value.

    Raises DataError for a column of another type, for columns of different lengths, and for headers whose name is
    missing or not UTF-8.
    """
    records = Records(
        normalize_binary(value, "value"),
        None if key is None else normalize_binary(key, "key"),
        None if timestamp is None else normalize_timestamp(timestamp),
        None if headers is None else _normalize_headers(headers),
    )
    lengths = {len(column) for column in records.columns if column is not None}
    if len(lengths) > 1:
        raise DataError(f"The columns of a batch of records differ in length: {sorted(lengths)}")
    return records


def normalize_binary(column: Any, name: str) -> pa.Array:
    """Return a column of bytes or text as binary or large_binary.

    `name` is the column's name in the DataError for a column of another type.
    """
    if isinstance(column, pa.ChunkedArray):
        return _one_array([normalize_binary(chunk, name) for chunk in column.chunks], pa.binary())
    if pa.types.is_dictionary(column.type):
        return normalize_binary(column.dictionary, name).take(column.indices)
    if not any(fits(column.type) for fits in (*_BINARY_LIKE, *_LARGE)):
        raise DataError(f"The {name} column is of type {column.type}: use a converter that makes bytes or text of it")
    return column.cast(pa.large_binary() if any(fits(column.type) for fits in _LARGE) else pa.binary())


def concat_binary(columns: Sequence[Any], name: str) -> pa.Array:
    """Join columns that `normalize_binary` accepts to one column. The result is empty if there are no columns."""
    return _one_array([normalize_binary(column, name) for column in columns], pa.binary())


def byte_offsets(column: pa.Array) -> NDArray[np.signedinteger[Any]]:
    """Return the offsets of a column of bytes or text: the start of each row, and the end of the last one."""
    is_large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    kind = np.dtype(np.int64) if is_large else np.dtype(np.int32)
    offsets: NDArray[np.signedinteger[Any]] = np.frombuffer(column.buffers()[1], kind)
    return offsets[column.offset : column.offset + len(column) + 1]


def normalize_timestamp(column: Any) -> pa.Array:
    """Return a column of integers (milliseconds) or timestamps as milliseconds, rounded down.

    Raises DataError for a column of another type.
    """
    if isinstance(column, pa.ChunkedArray):
        return _one_array([normalize_timestamp(chunk) for chunk in column.chunks], pa.int64())
    if pa.types.is_timestamp(column.type):
        # Without its zone, a timestamp stays the same instant, and rounding needs no time zone database.
        instants = column.cast(pa.timestamp(column.type.unit))
        return pc.floor_temporal(instants, unit="millisecond").cast(pa.timestamp("ms")).cast(pa.int64())
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.int64())
    raise DataError(f"The timestamp column is of type {column.type}: use a timestamp or milliseconds as an integer")


def _normalize_headers(column: Any) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return _one_array([_normalize_headers(chunk) for chunk in column.chunks], HEADERS)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), HEADERS)
    if pa.types.is_map(column.type):
        column = maps_as_lists(column)
    entry = column.type.value_type if any(fits(column.type) for fits in _LISTS) else None
    if entry is None or not pa.types.is_struct(entry) or entry.num_fields < 2:
        raise DataError(f"The headers column is of type {column.type}: use an array of structs with a name and a value")
    check_header_names(column)
    if column.type == HEADERS:
        return column
    entries = column.flatten()
    names = normalize_binary(entries.field(0), "header name").cast(pa.string())
    values = normalize_binary(entries.field(1), "header value").cast(pa.binary())
    structs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    ends = np.cumsum(pc.list_value_length(column).fill_null(0).to_numpy(), dtype=np.int32)
    return pa.ListArray.from_arrays(np.concatenate([np.zeros(1, np.int32), ends]), structs, type=HEADERS)


def check_header_names(headers: pa.Array) -> None:
    """Raise DataError if the name of a header is missing, or not UTF-8.

    Brokers would accept such names, but clients would fail to read the record.
    """
    entries = headers.flatten()
    if entries.null_count or entries.field(0).null_count:
        raise DataError("The headers column has a header without a name: Kafka has no such headers")
    try:
        entries.field(0).cast(pa.string()).validate(full=True)
    except pa.ArrowInvalid as error:
        raise DataError(
            "The headers column has a header whose name is not UTF-8, as the names of headers are in Kafka: decode the "
            "name, or make base64 of it"
        ) from error


def _one_array(chunks: list[pa.Array], kind: pa.DataType) -> pa.Array:
    if not chunks:
        return pa.array([], kind)
    return _concat(chunks, [len(chunk) for chunk in chunks]) if len(chunks) > 1 else chunks[0]


def _concat(columns: Sequence[pa.Array | None], lengths: Sequence[int]) -> pa.Array | None:
    present = [column for column in columns if column is not None]
    if not present:
        return None
    kind = present[0].type
    narrow = {pa.binary(): pa.large_binary(), pa.string(): pa.large_string()}
    if kind in (*narrow, *narrow.values()):
        large = len({column.type for column in present}) > 1 or sum(column.nbytes for column in present) > _MAX_OFFSET
        kind = narrow.get(kind, kind) if large else kind
    filled = (
        pa.nulls(n, kind) if column is None else column.cast(kind) for column, n in zip(columns, lengths, strict=True)
    )
    return pa.concat_arrays(list(filled))
