"""Arrow kernels for building text column by column, used by the converters.

Texts are `string` arrays with 32-bit offsets. Nothing here processes single records: to insert a constant between all
values of a column, Arrow's `binary_join` runs once over the column's bytes, cut at the column's own offsets. A result
of more than 2 GiB raises `pa.ArrowCapacityError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_INT32_MAX = 2**31 - 1
ESCAPED = "surrogateescape"
"""The error handler by which bytes that are not UTF-8 are kept in a Python text."""

_FEWEST_IN_STRIDES = 256
"""For fewer rows, the function calls take longer than joining row by row."""


@dataclass(frozen=True, slots=True)
class Text:
    """The texts `prefix + body[i] + suffix` of a column; a null in `body` is a null, without prefix and suffix."""

    body: pa.Array
    prefix: str = ""
    suffix: str = ""

    def column(self) -> pa.Array:
        """Return the texts as one `string` array."""
        return wrap(self.body, self.prefix, self.suffix)

    def joinable(self) -> Text:
        """Return the same texts. Prefix and suffix stay separate only if the body has no nulls."""
        return self if self.body.null_count == 0 else Text(self.column())


def wrap(strings: pa.Array, prefix: str, suffix: str) -> pa.Array:
    """Put constants before and after each text; nulls stay null."""
    return wrap_bytes(strings, prefix.encode(), suffix.encode())


def wrap_bytes(strings: pa.Array, prefix: bytes, suffix: bytes) -> pa.Array:
    """Put constants before and after each text; nulls stay null.

    The result is a `string` array, even if it is not UTF-8.
    """
    size = len(strings)
    if size == 0 or not (prefix or suffix):
        return strings
    offsets, data = _parts(strings)
    glue = suffix + prefix
    joined = _insert(data, offsets, int(offsets[0]), int(offsets[-1]), glue)
    moved = (offsets - offsets[0]) + len(glue) * np.arange(size + 1, dtype=np.int32)
    # The joined bytes begin with a whole separator, suffix + prefix. Its suffix belongs to no value.
    return _strings(strings, moved, joined.slice(len(suffix)))


def with_suffix(strings: pa.Array, rows: np.ndarray[Any, Any], suffix: str) -> pa.Array:
    """Put a constant after the texts of some rows. `rows` must be in ascending order."""
    offsets, data = _parts(strings)
    joined = _insert(data, offsets[rows + 1], int(offsets[0]), int(offsets[-1]), suffix.encode())
    longer = np.zeros(len(offsets), np.int32)
    longer[rows + 1] = len(suffix)
    return _strings(strings, (offsets - offsets[0]) + np.cumsum(longer, dtype=np.int32), joined)


def join_columns(pieces: Sequence[str | Text], *, null: str = "null") -> pa.Array:
    """Join constants and columns of equal length row by row; nulls become `null`. At least one column is needed.

    In a constant, bytes that are not UTF-8 are given as Python's surrogate escapes.
    """
    args: list[Any] = [""]
    for piece in pieces:
        if isinstance(piece, str):
            args[-1] += piece
        else:
            text = piece.joinable()
            args[-1] += text.prefix
            args += [text.body, text.suffix]
    kept = [arg for arg in args if not (isinstance(arg, str) and not arg)]
    kept = _with_strides(kept)
    if len(kept) == 1 and kept[0].null_count == 0:
        return kept[0]
    kept = [_constant(piece) if isinstance(piece, str) else piece for piece in kept]
    return pc.binary_join_element_wise(*kept, "", null_handling="replace", null_replacement=null)


def _constant(text: str) -> Any:
    """Return a text as an Arrow scalar for kernels.

    The text may contain bytes that are not UTF-8: kernels do not check this.
    """
    data = text.encode(errors=ESCAPED)
    edges = pa.py_buffer(np.array([0, len(data)], np.int32))
    return pa.Array.from_buffers(pa.string(), 1, [None, edges, pa.py_buffer(data)])[0]


def _with_strides(pieces: Sequence[Any]) -> list[Any]:
    """Join adjacent columns if their texts have the same length in all rows.

    Such columns are copied with strides, a column at a time, in a third of the time of joining row by row.
    """
    joined: list[Any] = []
    run: list[str | _Even] = []
    for piece in pieces:
        even = piece if isinstance(piece, str) else _Even.of(piece)
        if even is None:
            joined += [*_laid_out(run), piece]
            run = []
        else:
            run.append(even)
    return [*joined, *_laid_out(run)]


@dataclass(frozen=True, slots=True)
class _Even:
    """A column whose texts all have `width` bytes."""

    strings: pa.Array
    width: int

    @classmethod
    def of(cls, strings: pa.Array) -> _Even | None:
        """Return the column, or None if the lengths differ, a text is null, or there are only few rows."""
        if len(strings) < _FEWEST_IN_STRIDES or strings.null_count:
            return None
        offsets = _parts(strings)[0]
        width = int(offsets[1] - offsets[0])
        # The first and the last offset usually prove that lengths differ.
        if int(offsets[-1] - offsets[0]) != len(strings) * width or (lengths_of(strings) != width).any():
            return None
        return cls(strings, width)


def _laid_out(run: Sequence[str | _Even]) -> list[Any]:
    """Join constants and columns of even width. A single piece is not copied."""
    columns = [piece.strings for piece in run if isinstance(piece, _Even)]
    if len(run) < 2 or not columns:
        return columns or list(run)
    count = len(columns[0])
    row, places = b"", []
    for piece in run:
        places.append(len(row))
        row += piece.encode(errors=ESCAPED) if isinstance(piece, str) else bytes(piece.width)
    if count * len(row) > _INT32_MAX:
        raise pa.ArrowCapacityError("The joined text does not fit an array of 32-bit offsets")
    # The memory comes from Arrow's allocator, which keeps freed memory for reuse.
    data = pa.allocate_buffer(count * len(row))
    np.ndarray((count, len(row)), np.uint8, data)[:] = np.ndarray(len(row), np.uint8, row)
    for piece, place in zip(run, places, strict=True):
        if isinstance(piece, _Even) and piece.width:
            offsets, texts = _parts(piece.strings)
            given = np.ndarray(count, f"V{piece.width}", texts, int(offsets[0]), (piece.width,))
            np.ndarray(count, given.dtype, data, place, (len(row),))[:] = given
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(row))
    return [pa.StringArray.from_buffers(count, pa.py_buffer(ends), data)]


def join_lists(offsets: np.ndarray[Any, Any], items: pa.Array, separator: str, nulls: pa.Array | None) -> pa.Array:
    """Join texts to lists: row i has the items `offsets[i]` to `offsets[i + 1]`; rows marked in `nulls` are null."""
    rows = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, mask=nulls)
    return pc.binary_join(rows, separator)


@dataclass(frozen=True, slots=True)
class Escape:
    """Escapes certain characters: puts `inserted` before each of them, and replaces it by another character.

    `characters` maps each character to its replacement after the inserted text. Only quotes, backslashes and control
    characters can be escaped.
    """

    inserted: str
    characters: dict[str, str]

    def apply(self, strings: pa.Array) -> pa.Array:
        """Escape all texts of a column."""
        offsets, data = _parts(strings)
        start, end = int(offsets[0]), int(offsets[-1])
        view = np.frombuffer(data, np.uint8)[start:end]
        replacements = np.zeros(256, np.uint8)
        for character, replacement in self.characters.items():
            replacements[ord(character)] = ord(replacement)
        positions = _special(view)
        positions = positions[replacements[view[positions]] != 0]
        if len(positions) == 0:
            return strings
        changed = view.copy()
        changed[positions] = replacements[view[positions]]
        joined = _insert(pa.py_buffer(changed), positions, 0, end - start, self.inserted.encode())
        relative = offsets - start
        moved = relative + len(self.inserted) * np.searchsorted(positions, relative).astype(np.int32)
        return _strings(strings, moved, joined)


def bytes_of(strings: pa.Array) -> np.ndarray[Any, Any]:
    """Return the concatenated bytes of all values of a `string` or `binary` array, as uint8 without a copy."""
    if len(strings) == 0:
        return np.empty(0, np.uint8)
    offsets, data = _parts(strings)
    return np.frombuffer(data, np.uint8)[int(offsets[0]) : int(offsets[-1])]


def is_constant(values: pa.Array) -> bool:
    """Whether there are at least two values, and all are the same text or whole number, or all null.

    The check is worthwhile, because a text that is the same in all rows costs nothing in a join. The first and the last
    value usually prove that a column is not constant. The result is False for other types.
    """
    if len(values) < 2 or values.null_count:
        return len(values) > 1 and bool(values.null_count == len(values))
    if pa.types.is_integer(values.type):
        numbers = values.to_numpy()
        return bool(numbers[0] == numbers[-1] and (numbers == numbers[0]).all())
    if not pa.types.is_string(values.type) or not values[0].equals(values[-1]):
        return False
    lengths, (offsets, data) = lengths_of(values), _parts(values)
    size, others = int(lengths[0]), int(offsets[-1] - offsets[1])
    return bool((lengths == size).all() and data.slice(offsets[1], others).equals(data.slice(offsets[0], others)))


def lengths_of(values: pa.Array) -> np.ndarray[Any, Any]:
    """Return the number of bytes in each slot of a `string` or `binary` array, including null slots, as int32."""
    return np.diff(_parts(values)[0]) if len(values) else np.empty(0, np.int32)


def strings_from(like: pa.Array, lengths: np.ndarray[Any, Any], data: np.ndarray[Any, Any]) -> pa.Array:
    """Return a `string` array over `data`, with slots of the given lengths; it is null where `like` is null."""
    return _strings(like, offsets_of(lengths), pa.py_buffer(data))


def offsets_of(lengths: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the 32-bit offsets of consecutive values with the given lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > _INT32_MAX:
        raise pa.ArrowCapacityError(f"{offsets[-1]} bytes do not fit an array of 32-bit offsets")
    return offsets.astype(np.int32)


def valid_only(text: pa.Array, like: pa.Array) -> pa.Array:
    """Return `text` with nulls where `like` is null. The bytes are not copied: null slots keep theirs."""
    if like.null_count == 0:
        return text
    valid = pc.and_(text.is_valid(), like.is_valid()).to_numpy(zero_copy_only=False)
    offsets, data = _parts(text)
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(len(text), pa.py_buffer(np.ascontiguousarray(offsets)), data, bitmap)


def _special(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the positions of quotes, backslashes and control characters.

    Comparing is far cheaper than looking up each byte.
    """
    return np.flatnonzero((data < ord(" ")) | (data == ord('"')) | (data == ord("\\")))


def _parts(strings: pa.Array) -> tuple[np.ndarray[Any, Any], pa.Buffer]:
    _, offsets, data = strings.buffers()
    view = np.frombuffer(offsets, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    return view, data if data is not None else pa.py_buffer(b"")


def _insert(data: pa.Buffer, cuts: np.ndarray[Any, Any], start: int, end: int, inserted: bytes) -> pa.Buffer:
    """Return the bytes `start` to `end` with `inserted` at each cut. The cuts are ascending and may repeat."""
    if end - start + len(cuts) * len(inserted) > _INT32_MAX:
        raise pa.ArrowCapacityError("The joined text does not fit an array of 32-bit offsets")
    edges = np.empty(len(cuts) + 2, np.int32)
    edges[0], edges[1:-1], edges[-1] = start, cuts, end
    pieces = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), data])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(pieces)], pa.int32()), pieces), inserted)
    return joined.buffers()[2]


def _strings(like: pa.Array, offsets: np.ndarray[Any, Any], data: pa.Buffer) -> pa.Array:
    bitmap = None
    if like.null_count:
        valid = like.is_valid().to_numpy(zero_copy_only=False)
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(
        len(like), pa.py_buffer(np.ascontiguousarray(offsets, np.int32)), data, bitmap, like.null_count
    )
