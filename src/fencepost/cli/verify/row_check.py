"""Compares a topic with its source file: each row or line should appear once.

Rows are compared by digests of 16 bytes, so memory does not depend on their size.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from fencepost.api.errors import DataError
from fencepost.api.foreign_json import parse_json

Row = tuple[str | None, ...]

_DIGEST_BYTES: Final = 16
_COMPRESSIONS: Final[Mapping[bytes, Callable[[BinaryIO], object]]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_OTHERS: Final = {b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_MAGIC_BYTES: Final = 6


@dataclass(frozen=True, slots=True)
class RowFindings:
    """The comparison of a topic's rows with a file's.

    `lost` counts the rows that appear more often in the file, `duplicates` those that appear more often in the topic.
    `unfinished` means that the file's last row has no line end and is not in the topic: while the file may grow, a
    source does not read such a row, so it is neither expected nor lost. `refused` counts the dead letters, which are
    included in `found`. If no record equals any row, `unlike` has the first record and the first row, in comparable
    form: then the topic and the file write rows differently, or one of them is the wrong one.
    """

    expected: int
    found: int
    lost: int
    duplicates: int
    unfinished: bool = False
    refused: int = 0
    unlike: tuple[Row, Row] | None = None

    @property
    def sound(self) -> bool:
        """Whether the topic has every row once, and nothing else."""
        return self.lost == self.duplicates == 0


def compare_rows(
    found: Iterable[Row], expected: Iterable[Row], source: SourceFile, refused: Iterable[Row] = ()
) -> RowFindings:
    """Compare rows, in any order: `found` and `refused` together should be `expected`, the rows of `source`.

    `found` is read first, then `expected`, then `refused`, each once. Raises the errors of the iterables.
    """
    records, rows = _First(found), _First(expected)
    have = Counter(map(_digest, records))
    want: Counter[bytes] = Counter()
    last: bytes | None = None
    for last in map(_digest, rows):
        want[last] += 1
    unlike = None if records.row is None or rows.row is None or want & have else (records.row, rows.row)
    letters = Counter(map(_digest, refused))
    have += letters
    unfinished = not source.finished and last is not None and have[last] < want[last]
    if unfinished and last is not None:
        want[last] -= 1
    return RowFindings(
        expected=want.total(),
        found=have.total(),
        lost=(want - have).total(),
        duplicates=(have - want).total(),
        unfinished=unfinished,
        refused=letters.total(),
        unlike=unlike,
    )


class _First:
    """Passes rows on, and keeps the first one in `row`, which is None before."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows
        self.row: Row | None = None

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.row = self.row or row
            yield row


class SourceFile:
    """A text file, or a pipe, which can be read only once. Gzip, bzip2 and xz are decompressed.

    `finished` means that the last line that was read has an end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.finished = True

    def lines(self, *, newline: str | None = None, errors: str = "strict") -> Iterator[str]:
        """Yield the lines with their ends; `newline` and `errors` are as for `open`. Raises DataError."""
        try:
            with (
                self.path.open("rb") as raw,
                _decompressed(raw) as data,
                io.TextIOWrapper(data, encoding="utf-8", newline=newline, errors=errors) as lines,
            ):
                for line in lines:
                    self.finished = line.endswith(("\n", "\r"))
                    yield line
        except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise DataError(f"{self.path} cannot be compared with the topic: {reason}") from error


def _decompressed(raw: io.BufferedReader) -> BinaryIO:
    head = raw.peek(_MAGIC_BYTES)
    for magic, opened in _COMPRESSIONS.items():
        if head.startswith(magic):
            return cast("BinaryIO", opened(raw))
    for magic, name in _OTHERS.items():
        if head.startswith(magic):
            raise ValueError(f"it is compressed with {name}: decompress it first")
    return raw


def _digest(row: Row) -> bytes:
    return blake2b(repr(row).encode(), digest_size=_DIGEST_BYTES).digest()


def lines_of(source: SourceFile) -> Iterator[Row]:
    """Yield the lines of a text file, each as a row of one cell. Raises DataError if it cannot be read."""
    for line in source.lines(errors="surrogateescape"):
        yield (line.removesuffix("\n"),)


def line_of_record(value: bytes | None) -> Row:
    """Return the row that `lines_of` would give for a record's value."""
    return (None if value is None else value.decode(errors="surrogateescape"),)


def json_value(data: bytes | None) -> Any:
    """Return the parsed JSON, without the schema envelope that Connect's JsonConverter may have added.

    Numbers with a fraction are Decimals. Invalid JSON is returned as text, and None as None.
    """
    if data is None:
        return None
    text = data.decode(errors="surrogateescape")
    try:
        value = parse_json(text, parse_float=Decimal)
    except ValueError:
        return text
    return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value
