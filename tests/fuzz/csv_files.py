r"""Random CSV, read by fencepost and by Python's `csv`, cut at every place.

The grammar is spelled out here once more, one byte after the other (`Reference`). It must agree with Python's `csv` on each
case, but for the three differences that docs/connectors/file.md names: the byte order mark, an escape character right after
a closing quote, and one at the end of the file. Splitter and reader must agree with it:

- the records that end in each beginning of the text, as a task sees a file that grows;
- blocks of any size, as executors and the worker read a part;
- the rows of parts that end at each record, and of the whole text;
- now and then a real task on a file, plain or compressed, that grows at any place, with any `batch.bytes`.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t

from fencepost.api.errors import DataError
from fencepost.connectors.files.content.held import HeldRange
from fencepost.connectors.files.content.ranges import PADDING, read_blocks, record_ends, scan_records
from fencepost.connectors.files.formats.csv_reader import CsvReader, Dialect
from fencepost.connectors.files.task import FileSourceTask
from tests.unit.connectors.support import start

MARK = b"\xef\xbb\xbf"
_REPORT_EVERY = 10_000
_TASK_EVERY = 200
_DELIMITERS = ",;|\t a\x01"
_QUOTES = ('"', "'", None, "q")
_ESCAPES = (None, None, "\\", "/", "|")
_LF = ord("\n")
_COMPRESSIONS = (bytes, gzip.compress, bz2.compress, lzma.compress)


@dataclass
class Reference:
    """The records of a text: their bounds, and their fields, each with whether it was quoted."""

    text: bytes
    dialect: Dialect
    bounds: list[int] = field(default_factory=list)
    """The positions after each complete record, if the text were to go on."""
    rows: list[list[tuple[bytes, bool]]] = field(default_factory=list)
    """The rows of complete records, without empty lines."""
    open_at: int | None = None
    """The start of a record that is incomplete at the end of the text."""
    differs: bool = False
    """Whether Python's csv reads the text differently."""

    def __post_init__(self) -> None:  # noqa: C901, PLR0912 - one automaton, in one place to be read
        delimiter, quote, escape = (
            None if c is None else ord(c) for c in (self.dialect.delimiter, self.dialect.quote, self.dialect.escape)
        )
        text, i = self.text, len(MARK) if self.text.startswith(MARK) else 0
        begin, state = i, "begin"
        row: list[tuple[bytes, bool]] = []
        value, quoted = bytearray(), False

        def end_field() -> None:
            nonlocal value, quoted
            row.append((bytes(value), quoted))
            value, quoted = bytearray(), False

        while i < len(text):
            byte, at_begin = text[i], i == begin
            i += 1
            if byte == escape:
                self.differs |= state == "closed"
                if i == len(text):
                    self.open_at, self.differs = begin, True
                    return
                value.append(text[i])
                i += 1
                state = "quoted" if state == "quoted" else "field"
            elif state == "quoted":
                if byte == quote:
                    state = "closed"
                else:
                    value.append(byte)
            elif state == "closed" and byte == quote:
                value.append(byte)
                state = "quoted"
            elif state == "begin" and byte == quote:
                state, quoted = "quoted", True
            elif byte == delimiter:
                end_field()
                state = "begin"
            elif byte in b"\r\n":
                certain = byte == ord("\n") or i < len(text)
                i += byte == ord("\r") and text[i : i + 1] == b"\n"
                if not at_begin:
                    end_field()
                    self.rows.append(row)
                row, state, begin = [], "begin", i
                if certain:
                    self.bounds.append(i)
            else:
                value.append(byte)
                state = "field"
        if state == "quoted":
            self.open_at = begin
        elif begin < len(text):
            end_field()
            self.rows.append(row)

    @property
    def values(self) -> list[list[str]]:
        """The fields' texts."""
        return [[value.decode() for value, _ in row] for row in self.rows]


@dataclass(frozen=True)
class Case:
    """A text, and the settings of its reader."""

    seed: int
    text: bytes
    dialect: Dialect
    null_values: tuple[str, ...]

    @classmethod
    def of(cls, seed: int) -> Case:
        """Make the case of a seed."""
        chance = random.Random(seed)
        while True:
            dialect = Dialect(chance.choice(_DELIMITERS), chance.choice(_QUOTES), chance.choice(_ESCAPES))
            if dialect.delimiter not in (dialect.quote, dialect.escape):
                break
        plain = [b"a", b"b", b"1", b" ", "ü€".encode(), b"\0", MARK]
        special = [b"\n", b"\r", b"\r\n", dialect.delimiter.encode()]
        special += [c.encode() for c in (dialect.quote, dialect.escape) if c] * 2
        weights = [chance.random() + 0.02 for _ in (*plain, *special)]
        pieces = chance.choices([*plain, *special], weights, k=chance.randrange(1, 25))
        if dialect.quote and chance.random() < 0.5:
            pieces = list(_shaped(chance, dialect, pieces))
        text = (MARK if chance.random() < 0.2 else b"") + b"".join(pieces)
        return cls(seed, text, dialect, chance.choice([("",), ("a", "1"), ("", "b")]))

    def says(self, problem: str) -> AssertionError:
        """Return the error that names this case."""
        return AssertionError(
            f"{problem}\nCase: {self.text!r}, {self.dialect}, null values {self.null_values}\n"
            f"Again: python -m tests.fuzz --only csv --cases 1 --seed {self.seed}"
        )

    def reader(self, columns: int) -> CsvReader:
        """Return a reader of this many STRING columns."""
        names = tuple(f"c{number}" for number in range(columns))
        kinds = t.StructType([t.StructField(name, t.StringType()) for name in names])
        return CsvReader(kinds, file_columns=names, dialect=self.dialect, null_values=self.null_values)

    def null_or_text(self, value: bytes, *, quoted: bool) -> str | None:
        text = value.decode()
        return None if text in self.null_values and not quoted else text


def _shaped(chance: random.Random, dialect: Dialect, pieces: list[bytes]) -> Iterator[bytes]:
    """Make fields of the pieces, most of them correctly quoted, so that records of long texts stay parseable."""
    quote = (dialect.quote or "").encode()
    for piece in pieces:
        if chance.random() < 0.6:
            yield quote + piece.replace(quote, quote * 2) + quote
        else:
            yield piece
        yield dialect.delimiter.encode() if chance.random() < 0.6 else chance.choice([b"\n", b"\r\n", b""])


def check(case: Case) -> None:
    """Compare all ways to read a text in memory. Raises AssertionError."""
    whole = Reference(case.text, case.dialect)
    _check_python(case, whole)
    _check_bounds(case, whole)
    _check_rows(case, whole)


def _check_python(case: Case, whole: Reference) -> None:
    if whole.differs:
        return
    text = case.text.removeprefix(MARK).decode()
    found = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=case.dialect.delimiter,
        quotechar=case.dialect.quote,
        escapechar=case.dialect.escape,
        quoting=csv.QUOTE_NONE if case.dialect.quote is None else csv.QUOTE_MINIMAL,
    )
    rows = [row for row in found if row]
    if whole.open_at is not None:
        rows = rows[:-1]
    if rows != whole.values:
        raise case.says(f"Python's csv reads {rows}, the reference {whole.values}")


def _check_bounds(case: Case, whole: Reference) -> None:
    text, quoting = case.text, case.dialect.quoting
    for length in range(len(text) + 1):
        # A carriage return as the last byte may be half of a CRLF.
        expected = [bound for bound in whole.bounds if bound < length or (bound == length and text[bound - 1] == _LF)]
        # The buffer may have bytes of an earlier block behind the text.
        found = record_ends(bytearray(text[:length] + b'"\n' * PADDING), length, quoting=quoting)[1].tolist()
        if found != expected:
            raise case.says(f"Records of the first {length} bytes end at {found}, not at {expected}")
    part = HeldRange("", 0, len(text), text)
    for block_bytes in (1, 2 + case.seed % 30):
        bounds = []
        blocks = read_blocks(io.BytesIO(text), part, quoting=quoting, finished=False, block_bytes=block_bytes)
        for block in blocks:
            bounds += [block.offset + int(start) for start in block.starts[1:]] + [block.offset + block.length]
        if bounds != whole.bounds:
            raise case.says(f"Records in blocks of {block_bytes} bytes end at {bounds}, not at {whole.bounds}")


def _check_rows(case: Case, whole: Reference) -> None:
    widths = {len(row) for row in whole.rows}
    columns = max(widths, default=1)
    reader = case.reader(columns)
    # One split for each record is slow, so only some cases have that.
    for split_bytes in (1, 1 << 20) if case.seed % 8 == 0 else (1 + case.seed % 60,):
        # The task also cuts a complete file behind its last record.
        file: Any = io.BytesIO(case.text)
        size = len(case.text)
        cuts = scan_records(
            file, HeldRange("", 0, size, case.text), size, quoting=case.dialect.quoting, split_bytes=split_bytes
        )
        ends = [cut.end for cut in cuts]
        if (ends[-1] if ends else 0) < size:
            ends.append(size)
        good, bad = [], []
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            for part in reader.read_tolerant(HeldRange("", begin, end, case.text[begin:end])):
                if isinstance(part, pa.RecordBatch):
                    good += [tuple(row.values()) for row in part.column("value").to_pylist()]
                else:
                    bad += part
        expected = [
            tuple(case.null_or_text(value, quoted=quoted) for value, quoted in row)
            for row in whole.rows
            if len(row) == columns
        ]
        if good != expected:
            raise case.says(f"In parts of {split_bytes} bytes the rows are {good}, not {expected}")
        refused = len(whole.rows) - len(expected) + (whole.open_at is not None)
        if len(bad) != refused:
            raise case.says(f"In parts of {split_bytes} bytes {len(bad)} rows are refused, not {refused}: {bad}")
        if whole.open_at is not None and bad[-1].raw != case.text[whole.open_at :]:
            raise case.says(f"What the end leaves open is refused as {bad[-1].raw!r}")


def check_task(case: Case, folder: Path) -> None:
    """Compare the rows that a task reads from a growing or compressed file. Raises AssertionError."""
    chance = random.Random(case.seed)
    whole = Reference(case.text, case.dialect)
    compress = chance.choice(_COMPRESSIONS)
    columns = max((len(row) for row in whole.rows), default=1)
    cut = chance.randrange(len(case.text) + 1) if compress is bytes else len(case.text)
    path = folder / "rows.csv"
    path.write_bytes(compress(case.text[:cut]))
    task = start(FileSourceTask(), _properties(case, path, columns, chance.choice([64, 100, 1 << 20])))
    try:
        found, refused = _read_task(task, path, case.text[cut:])
    except DataError as error:
        if "no end of a record" in str(error):
            # A row may be longer than batch.bytes.
            return
        raise case.says(f"The task failed: {error}") from error
    finally:
        task.stop()
    expected = [
        tuple(value.decode() if value or quoted else None for value, quoted in row)
        for row in whole.rows
        if len(row) == columns
    ]
    if found != expected:
        raise case.says(f"A task that found {cut} bytes first reads {found}, not {expected}")
    if refused != len(whole.rows) - len(expected) + (whole.open_at is not None):
        raise case.says(f"A task that found {cut} bytes first refuses {refused} rows")


def _properties(case: Case, path: Path, columns: int, batch_bytes: int) -> dict[str, str]:
    delimiter = case.dialect.delimiter
    return {
        "files": str(path), "task.files": json.dumps([str(path)]), "topic": "rows", "format": "csv",
        "schema": ", ".join(f"c{number} STRING" for number in range(columns)),
        "delimiter": {"\t": "\\t", " ": "\\u0020"}.get(delimiter, delimiter),
        "quote": case.dialect.quote or "", "escape": case.dialect.escape or "", "batch.bytes": str(batch_bytes),
    }  # fmt: skip


def _read_task(task: Any, path: Path, more: bytes) -> tuple[list[tuple[str | None, ...]], int]:
    """Return the rows of a growing file, and the number of refused rows."""
    batches = []
    for appended in (more, b""):
        while (batch := _polled(task)) is not None:
            batches.append(batch)
        with path.open("ab") as file:
            file.write(appended)
    while not task.at_end():
        batches.append(task.poll())
    found: list[tuple[str | None, ...]] = []
    refused = 0
    for batch in filter(None, batches):
        for part in chain.from_iterable(batch.reader.read_tolerant(split) for split in batch.splits):
            if isinstance(part, pa.RecordBatch):
                found += [tuple(row.values()) for row in part.column("value").to_pylist()]
            else:
                refused += len(part)
    return found, refused


def _polled(task: Any) -> Any:
    """The task's next batch, without a wait for more data."""
    found = task._next_batch()
    if not found:
        return None
    wait_for_now = iter([found])
    original, task._next_batch = task._next_batch, lambda: next(wait_for_now)
    try:
        return task.poll()
    finally:
        task._next_batch = original


def run(cases: int, seed: int) -> int:
    """Run a case for each seed from `seed` on, and return their number. Raises AssertionError for a failed case."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(cases):
            case = Case.of(seed + number)
            check(case)
            if cases == 1 or number % _TASK_EVERY == 0:
                check_task(case, Path(folder))
            if (number + 1) % _REPORT_EVERY == 0:
                sys.stdout.write(f"csv: {number + 1} cases\n")
                sys.stdout.flush()
    return cases
