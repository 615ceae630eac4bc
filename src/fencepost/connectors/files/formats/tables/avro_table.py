"""Avro object container files.

https://avro.apache.org/docs/1.12.0/specification/#object-container-files

file  = header block*
block = number of rows (long), number of bytes (long), the bytes, the file's sync marker
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from io import FileIO
from itertools import islice
from typing import Any, Final, cast

import pyarrow as pa

from fencepost.api.errors import ConfigError, DataError, RetriableError
from fencepost.api.extras import how_to_install
from fencepost.connectors.files.formats.tables.avro_schema import (
    EXACT_DECIMAL,
    arrow_schema,
    wide,
    without_logical_types,
)
from fencepost.connectors.files.formats.tables.table import Group, IncompleteTableError, Table
from fencepost.connectors.files.stores.objects import size_of

try:
    import fastavro
except ImportError:
    fastavro = None  # type: ignore[assignment]

_HEADER: Final = {
    "type": "record", "name": "header", "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}  # fmt: skip
_SCHEMA: Final = "avro.schema"
_SYNC_BYTES: Final = 16
_MOST_LONG_BYTES: Final = 10
_ROWS: Final = 4_096
_UNDECODED: Final = "surrogateescape"
"""The error handler that keeps bytes that are not UTF-8 in Python strings."""
_EXACT: Final = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)


def check_avro_is_installed() -> None:
    """Raise ConfigError if fastavro is not installed."""
    if fastavro is None:
        raise ConfigError(
            "format=avro needs the package fastavro on each worker and each Spark executor: run: "
            f"{how_to_install('avro')}",
            name="format",
        )


class AvroTable(Table):
    """An Avro file. A group is a block; its key is the position of its first byte, its size is its number of bytes.

    Appended rows are in new blocks. Raises IncompleteTableError for a file without a complete header.
    """

    def __init__(self, path: str, file: FileIO) -> None:
        super().__init__(path, file)
        check_avro_is_installed()
        self._size = size_of(file)
        buffered = io.BufferedReader(file)
        try:
            self._header = cast("dict[str, Any]", fastavro.schemaless_reader(buffered, cast("Any", _HEADER), None))
            self._first = buffered.tell()
        except (EOFError, IndexError) as error:
            raise IncompleteTableError("the header is not whole") from error
        except (DataError, RetriableError):
            raise
        except Exception as error:
            raise self._damaged(error) from error
        finally:
            # Without this, `buffered` would close the file when it is garbage-collected.
            buffered.detach()
        try:
            self._schema = json.loads(self._header["meta"][_SCHEMA])
        except (KeyError, ValueError) as error:
            raise self._damaged(error) from error

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return arrow_schema(self.path, self._schema)

    @property
    def identity(self) -> str:
        """The file's sync marker, which is random."""
        return str(self._header["sync"].hex())

    @property
    def first_key(self) -> int:
        """The position after the header."""
        return self._first

    @property
    def keys(self) -> str:
        """Where the first block is."""
        return f"blocks from byte {self._first} on, and a group is the byte at which a block begins"

    def groups(self, key: int) -> Iterator[Group]:
        """Yield the blocks. Only the first and the last bytes of each block are read."""
        if not self._first <= key <= self._size:
            raise self._no_group(key)
        while key < self._size:
            group = self._group(key)
            yield group
            key = group.next

    def _group(self, key: int) -> Group:
        self._file.seek(key)
        head = self._file.read(2 * _MOST_LONG_BYTES)
        rows, begin = _long(head, 0)
        length, begin = _long(head, begin)
        if begin > len(head) or rows < 0 or length < 0:
            if begin > len(head) and len(head) < 2 * _MOST_LONG_BYTES:
                raise IncompleteTableError("the last block is not whole")
            raise self._not_a_block(key)
        end = key + begin + length + _SYNC_BYTES
        if end > self._size:
            raise IncompleteTableError("the last block is not whole")
        self._file.seek(end - _SYNC_BYTES)
        if self._file.read(_SYNC_BYTES) != self._header["sync"]:
            raise self._not_a_block(key)
        return Group(key, end, rows, end - key)

    def _not_a_block(self, key: int) -> DataError:
        return DataError(
            f"The file {self.path} has no sound block at byte {key}: it is damaged or was replaced, or the offset is wrong. "
            "Bring the right file, or remove this one; the rows before it are delivered"
        )

    def batches(self, key: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows. They are decoded one by one, in Python."""
        fields = pa.struct(list(self.schema))
        meta = self._header["meta"] | {_SCHEMA: json.dumps(without_logical_types(self._schema)).encode()}
        header = io.BytesIO()
        fastavro.schemaless_writer(header, cast("Any", _HEADER), self._header | {"meta": meta})
        # The reader must stop after `rows` rows: the next block may be incomplete.
        joined = cast("Any", _Joined(header.getvalue(), self._file, key))
        reader = islice(fastavro.reader(joined, handle_unicode_errors=_UNDECODED), rows)
        while part := list(islice(reader, _ROWS)):
            yield from map(pa.RecordBatch.from_struct_array, _arrays(part, fields))

    def left(self, key: int) -> int:
        """Return the number of bytes from the position to the end of the file."""
        return max(0, self._size - key)


def _arrays(rows: list[Any], fields: pa.DataType) -> Iterator[pa.Array]:
    """Yield rows as structs. A row with text that is not UTF-8 is yielded separately, with bytes in place of texts."""
    try:
        yield pa.array(rows, wide(fields))
    except UnicodeEncodeError:
        if len(rows) == 1:
            yield pa.array([_encoded(rows[0])], wide(fields, texts=pa.binary()))
            return
        middle = len(rows) // 2
        yield from _arrays(rows[:middle], fields)
        yield from _arrays(rows[middle:], fields)


def _encoded(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors=_UNDECODED)
        case list():
            return [_encoded(item) for item in value]
        case dict():
            return {name: _encoded(item) for name, item in value.items()}
        case _:
            return value


def _decimal(data: bytes, schema: Any, _reader_schema: Any = None) -> Decimal:
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-schema.get("scale", 0), _EXACT)


if fastavro is not None:
    for _kind in ("bytes", "fixed"):
        fastavro.read.LOGICAL_READERS[f"{_kind}-{EXACT_DECIMAL}"] = _decimal


class _Joined:
    """Some bytes, followed by a file's bytes from `position` on, as one file."""

    def __init__(self, head: bytes, file: FileIO, position: int) -> None:
        self._head = io.BytesIO(head)
        self._file = file
        file.seek(position)

    def read(self, size: int) -> bytes:
        data = self._head.read(size)
        return data + self._file.read(size - len(data)) if len(data) < size else data


def _long(data: bytes, begin: int) -> tuple[int, int]:
    """Decode a number in Avro's encoding; return it with the position after it.

    If the number is incomplete, the position is beyond the end of the data.
    """
    value = shift = 0
    for position in range(begin, min(len(data), begin + _MOST_LONG_BYTES)):
        value |= (data[position] & 0x7F) << shift
        shift += 7
        if data[position] < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
    return 0, len(data) + 1
