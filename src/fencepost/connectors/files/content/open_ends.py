"""Describes why the last record of a file is incomplete: an open quote, or an escape character at the end."""

from __future__ import annotations

import logging
from typing import Final

from fencepost.api.errors import DataError
from fencepost.connectors.files.content.csv_quotes import Quoting, open_end
from fencepost.connectors.files.content.ranges import FileRange, after_mark, count_lines

_LOG: Final = logging.getLogger(__name__)


def described_open_end(record: bytes | bytearray, quoting: Quoting, line: int, begin: int = 0) -> str | None:
    """Describe why the last record of a file is incomplete; None if the record is complete.

    The record begins on `line`, and its first field starts at `begin`.
    """
    found = open_end(record, quoting, begin)
    if found is None:
        return None
    if not found.is_quote:
        return "the file ends right after an escape character"
    opens = line + count_lines(record[: found.position])
    last = line + count_lines(record) - record.endswith((b"\n", b"\r"))
    rows = f", so lines {line} to {last} are one row" if last > line else ""
    return f"the quote that opens on line {opens} is not closed before the end of the file{rows}"


def warn_of_open_end(part: FileRange, record: bytes | bytearray, quoting: Quoting | None, line: int) -> None:
    """Log why the last record of a file is incomplete.

    If bad rows are skipped, only this message reports the record's lines. `part` is the range of the record.
    """
    if quoting is None:
        return
    problem = described_open_end(record, quoting, line, after_mark(record, part.start))
    if problem is not None:
        _LOG.warning("The last row of the file %s does not fit: %s", part.path, problem)


def no_end_of_record(
    part: FileRange, data: bytes | bytearray, quoting: Quoting | None, line: int, *, of_content: bool = False
) -> DataError:
    """Return the error for a part of a file in which no record ends.

    `data` are the part's bytes, which begin on `line`.
    """
    found = None if quoting is None else open_end(data, quoting, after_mark(data, part.start))
    if found is not None and found.is_quote:
        opens = line + count_lines(data[: found.position])
        cause = f"The quote that opens on line {opens} is not closed there: correct the file."
    else:
        cause = "Perhaps the file is not a text file."
    return DataError(
        f"The file {part.path} has no end of a record in the {part.size} bytes {'of its content ' if of_content else ''}from byte "
        f"{part.start} on. {cause} If records are really that long, set batch.bytes higher"
    )
