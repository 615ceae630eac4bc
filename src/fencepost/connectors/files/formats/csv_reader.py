"""Reads typed rows from comma-separated values (RFC 4180), with pyarrow's parser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyarrow import csv as arrow_csv
from pyspark.sql import types as t

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import ConfigError, DataError
from fencepost.connectors.files.content.csv_quotes import BYTE_ORDER_MARK, Quoting, open_end
from fencepost.connectors.files.content.held import open_range
from fencepost.connectors.files.content.open_ends import described_open_end
from fencepost.connectors.files.content.ranges import Block, FileRange, after_mark, read_blocks
from fencepost.connectors.files.formats.field_values import is_finite, parse_texts
from fencepost.connectors.files.formats.row_reader import NOT_UTF_8, RowReader, contents, is_utf8, shown
from fencepost.connectors.rows.record_mapping import RecordColumns
from fencepost.connectors.rows.row_types import MisfitError, arrow_type, check_years

# The usual delimiters, in the notation of the property `delimiter`.
_DELIMITERS: Final = {";": ";", "\t": "\\t", "|": "|", ",": ","}
_CASE_OF_SECOND: Final = np.uint16(int.from_bytes(b"\0 ", "little"))
_PAIRS_AT_ONCE: Final = 1 << 17
"""The number of pairs that are compared at once, so that the results stay in the processor's cache."""
_COLUMN_NUMBER: Final = re.compile(r"In CSV column #(\d+):")


@dataclass(frozen=True)
class Dialect:
    """The characters that have a meaning in CSV, each an ASCII character; `quote` and `escape` may be None."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None

    @property
    def quoting(self) -> Quoting:
        """The characters that decide where records end."""
        return Quoting(ord(self.delimiter), _code(self.quote), _code(self.escape))

    @property
    def parse_options(self) -> arrow_csv.ParseOptions:
        """The dialect for pyarrow's parser."""
        return arrow_csv.ParseOptions(
            delimiter=self.delimiter,
            quote_char=self.quote or False,
            escape_char=self.escape or False,
            newlines_in_values=True,
        )


def _code(character: str | None) -> int | None:
    return None if character is None else ord(character)


@dataclass(frozen=True)
class CsvReader(RowReader):
    """Reads rows of CSV. Quoted fields may contain delimiters, line ends and doubled quotes. Empty lines are skipped.

    After the dialect's escape character, the next character has no special meaning, within quotes or not.
    `file_columns` are the names of the file's columns in the file's order; `header` says that the first record contains
    these names. An unquoted field that equals one of `null_values` is null. `field_values` describes the grammar of the
    other fields.
    """

    file_columns: tuple[str, ...] = ()
    header: bool = False
    dialect: Dialect = Dialect()
    null_values: tuple[str, ...] = ("",)

    @property
    def quoting(self) -> Quoting:
        """The quoting characters of the dialect."""
        return self.dialect.quoting

    def without_header(self, block: Block) -> Block:
        """Skip the file's first record if it is the header, and skip a byte order mark at the start of the file."""
        if block.offset:
            return block
        if self.header:
            return replace(block, starts=block.starts[1:], ends=block.ends[1:])
        starts = block.starts.copy()
        starts[:1] += after_mark(block.data, block.offset)
        return replace(block, starts=starts)

    def parse(self, block: Block, columns: Sequence[t.StructField]) -> list[pa.Array]:
        """Return the rows' values in the given columns."""
        rows = int(np.count_nonzero(block.starts != block.ends))
        # The parser skips empty lines, and refuses a text that has only empty lines.
        if rows == 0:
            return [pa.array([], arrow_type(column.dataType)) for column in columns]
        # pyarrow treats the end of the text as the end of a quoted field.
        if open_end(block.data[int(block.starts[-1]) : int(block.ends[-1])], self.quoting) is not None:
            raise MisfitError
        arrays = self._values(block, columns)
        for array in arrays:
            if len(array) != rows:
                raise MisfitError(f"the parser finds {len(array)} rows in {rows} records")
            check_years(array)
        return arrays

    def _values(self, block: Block, columns: Sequence[t.StructField]) -> list[pa.Array]:
        """Return the values in the given columns.

        If pyarrow's parser may misread a column, the column is converted from text.
        """
        types = {column.name: _parsed_type(column.dataType) for column in columns}
        if any(map(pt.is_integer, types.values())) and _has_hexadecimal(block, self.quoting):
            # The parser reads 0xFF in a TINYINT as -1.
            types = {name: pa.string() if pt.is_integer(kind) else kind for name, kind in types.items()}
        try:
            table = self._table(block, types)
            # The parser reads a number beyond the type's range as infinity, and nan(...) as NaN.
            odd = [name for name in types if not is_finite(table.column(name))]
            texts = self._table(block, dict.fromkeys(odd, pa.string())) if odd else table
            return [
                _finished((texts if column.name in odd else table)[column.name], column.dataType) for column in columns
            ]
        except (MisfitError, pa.ArrowInvalid):
            # pyarrow's parser does not know all blanks and signs that the grammar of a type allows.
            texts = self._table(block, {name: _text_type(kind) for name, kind in types.items()})
            return [_finished(texts[column.name], column.dataType) for column in columns]

    def _table(self, block: Block, types: Mapping[str, pa.DataType]) -> pa.Table:
        """Parse the columns in `types`, each with its Arrow type."""
        text = self._text(block)
        # `read_csv` uses another thread, which takes longer than parsing a small part of a block.
        return arrow_csv.open_csv(
            text,
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=text.size() + 1, column_names=self.file_columns
            ),
            parse_options=self.dialect.parse_options,
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=self.null_values,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                # pyarrow checks UTF-8 text by text, which is ten times as slow as one check of the whole block.
                check_utf8=bool(np.frombuffer(block.data, np.uint8, block.length).max() >= 0x80),
            ),
        ).read_all()

    def _text(self, block: Block) -> pa.BufferReader:
        """Return a block's records as text that the parser does not change."""
        text = contents(block)
        # After a quoted field, pyarrow treats an empty field at the end of the text as quoted too, and so not as null.
        ended = block.data[block.length - 1] != ord(self.dialect.delimiter)
        # pyarrow removes a byte order mark from the start of each text, and refuses an incomplete one.
        marked = block.data[int(block.starts[0])] == BYTE_ORDER_MARK[0]
        if ended and not marked:
            return text
        return pa.BufferReader(BYTE_ORDER_MARK * marked + text.read() + b"\n" * (not ended))

    def explain(self, record: bytes, error: Exception, line: int) -> str:
        """Describe why a record does not fit: an extra or missing column, a wrong value, or an open quote."""
        if (problem := described_open_end(record, self.quoting, line)) is not None:
            return problem
        fields = split_record(record, self.dialect)
        if len(fields) != len(self.file_columns):
            return (
                f"it has {len(fields)} column{'s' if len(fields) != 1 else ''}, where {len(self.file_columns)} are expected "
                f"({', '.join(self.file_columns)}){_other_delimiter(fields)}"
            )
        for column in self._suspects(error):
            alone = replace(self, columns=t.StructType([column]), record=RecordColumns(), header=False)
            if not alone.fits(Block.of(record)):
                place = self.file_columns.index(column.name)
                type_name = column.dataType.simpleString().upper() + ("" if column.nullable else " NOT NULL")
                message = (
                    f"column {column.name} (number {place + 1}): {shown(fields[place])} is not of type {type_name}"
                )
                is_text = isinstance(column.dataType, t.StringType)
                return message if is_utf8(record) or not is_text else f"{message}: {NOT_UTF_8}"
        return str(error) if isinstance(error, MisfitError) and str(error) else shown(record.decode("utf-8", "replace"))

    def _suspects(self, error: Exception) -> list[t.StructField]:
        """Return the columns that may contain the wrong value, starting with the column that the parser names."""
        named = _COLUMN_NUMBER.match(str(error))
        name = self.file_columns[int(named[1])] if named else None
        return sorted(self.columns.fields, key=lambda column: column.name != name)


def _parsed_type(data_type: t.DataType) -> pa.DataType:
    """Return the Arrow type with which the parser reads a column.

    DECIMALs are read as text: pyarrow's parser overflows on large numbers, and reads out of bounds for 1e-2000000000.
    """
    texts = (t.TimestampType, t.TimestampNTZType, t.DecimalType)
    return pa.string() if isinstance(data_type, texts) else arrow_type(data_type)


def _text_type(kind: pa.DataType) -> pa.DataType:
    return kind if pt.is_binary(kind) else pa.string()


def _finished(values: pa.ChunkedArray, data_type: t.DataType) -> pa.Array:
    found = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return parse_texts(found, data_type) if pt.is_string(found.type) else found


def _has_hexadecimal(block: Block, quoting: Quoting) -> bool:
    """Return whether a block has an x or X right after a 0, or after a quote or escape, which the parser may remove.

    Comparing pairs of bytes as numbers is ten times as fast as searching for each pair.
    """
    begin, end = int(block.starts[0]), block.length

    def has(code: int) -> bool:
        return block.data.find(code, begin, end) >= 0

    if not (has(ord("x")) or has(ord("X"))):
        return False
    before = [code for code in {ord("0"), quoting.quote, quoting.escape} if code is not None and has(code)]
    wanted = [np.uint16(int.from_bytes(bytes((code, ord("x"))), "little")) for code in before]
    for odd in (0, 1):
        pairs = np.frombuffer(block.data, "<u2", (end - begin - odd) // 2, begin + odd)
        for first in range(0, len(pairs), _PAIRS_AT_ONCE):
            folded = pairs[first : first + _PAIRS_AT_ONCE] | _CASE_OF_SECOND
            if any(bool((folded == pair).any()) for pair in wanted):
                return True
    return False


def split_record(record: bytes, dialect: Dialect) -> list[str]:
    """Return the fields of one record as they are written, but without quotes."""
    if not record:
        return []
    # The parser removes one byte order mark, and counts the columns only if the line is complete.
    text = BYTE_ORDER_MARK + record + b"\n"
    reading = {
        "read_options": arrow_csv.ReadOptions(
            use_threads=False, block_size=len(text) + 1, autogenerate_column_names=True
        ),
        "parse_options": dialect.parse_options,
    }
    names = arrow_csv.open_csv(pa.BufferReader(text), **reading).schema.names
    as_written = arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False)
    table = arrow_csv.open_csv(pa.BufferReader(text), **reading, convert_options=as_written).read_all()
    return [values[0].decode("utf-8", "replace") for values in table.to_pydict().values()]


def _other_delimiter(fields: Sequence[str]) -> str:
    """Suggest another delimiter if a record has only one field, and that field contains another usual delimiter."""
    if len(fields) != 1:
        return ""
    found = next((value for character, value in _DELIMITERS.items() if character in fields[0]), None)
    return "" if found is None else f". If {found} separates its columns, set the property delimiter={found}"


def read_header(head: FileRange, dialect: Dialect, allowed: AllowedPaths, *, declared: bool = True) -> tuple[str, ...]:
    """Return the names in a file's first record. The record must be complete within the range, which starts with it.

    Raises DataError if there is no such record, if a name is empty or duplicated, or, unless the columns are
    `declared`, if the delimiter seems wrong.
    """
    with open_range(head, allowed) as file:
        block = next(read_blocks(file, head, quoting=dialect.quoting, finished=True), Block.of(b""))
    record = bytes(block.data[after_mark(block.data, head.start) : int(block.ends[0])])
    if (problem := described_open_end(record, dialect.quoting, 1)) is not None:
        raise DataError(f"The header of the file {head.path} cannot be read: {problem}. Correct the file")
    text = record.decode("utf-8", "replace")
    names = tuple(split_record(record, dialect))
    if not declared and (other := _other_delimiter(names)):
        raise DataError(
            f"The header of the file {head.path} is one column, {shown(text)}{other}. If not, name the column in the property "
            "schema"
        )
    if len(set(names)) < len(names) or "" in names:
        raise DataError(
            f"The header of the file {head.path} has a name twice, or an empty one: {shown(text)}. Correct it, or remove it "
            "and set header=false and schema"
        )
    return names


def match_header(
    path: str, names: Sequence[str], columns: t.StructType, *, ignore_extra: bool = False, ignore_case: bool = False
) -> tuple[str, ...]:
    """Return the column of the schema for each name in a file's header. The header may be in any order.

    An extra name in the header becomes a name that the schema does not have. Raises DataError unless the header has
    each column of the schema once, and no other columns unless `ignore_extra`.
    """
    by_name = {_folded(name, ignore_case=ignore_case): name for name in columns.names}
    matched = [by_name.get(_folded(name, ignore_case=ignore_case)) for name in names]
    missing = [name for name in columns.names if name not in matched]
    twice = [name for name in columns.names if matched.count(name) > 1]
    extra = [name for name, match in zip(names, matched, strict=True) if match is None]
    parts = [f"the schema's {', '.join(missing)} missing in the file"] if missing else []
    parts += [f"{', '.join(twice)} twice in the file, in upper and lower case"] if twice else []
    parts += [f"the file's {', '.join(extra)} missing in the schema"] if extra and not ignore_extra else []
    if parts:
        raise DataError(
            f"The header of the file {path}, line 1, does not fit the schema: {'; '.join(parts)}"
            f"{_other_delimiter(names)}. Correct the file or the property schema, or see header.extra.columns and header.case.sensitive"
        )
    # A name that is not in the schema may still equal a column's name in another case.
    return tuple(match or f"{name} (extra)" for name, match in zip(names, matched, strict=True))


def _folded(name: str, *, ignore_case: bool) -> str:
    return name.casefold() if ignore_case else name


def check_csv_columns(columns: t.StructType) -> None:
    """Raise ConfigError for a type whose values a text field cannot contain."""
    for column in columns:
        if isinstance(column.dataType, t.ArrayType | t.MapType | t.StructType | t.NullType):
            raise ConfigError(
                f"The property schema gives the column {column.name} the type {column.dataType.simpleString()}, which "
                "a CSV field cannot hold: use a simple type, or format=jsonl",
                name="schema",
            )
