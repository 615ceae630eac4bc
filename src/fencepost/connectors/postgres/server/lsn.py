"""Positions in a server's write-ahead log (LSN) in the form in which PostgreSQL writes them, and the log's timelines.

https://www.postgresql.org/docs/current/datatype-pg-lsn.html
"""

from __future__ import annotations

import re
from typing import Final

from fencepost.api.errors import DataError

_TEXT: Final = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")


def lsn_text(lsn: int) -> str:
    """Return an LSN in the form in which PostgreSQL writes it: `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Parse an LSN that PostgreSQL wrote. Raises DataError."""
    if not _TEXT.fullmatch(text):
        raise DataError(f"{text!r} is not a position of PostgreSQL's write-ahead log, such as 16/B374D848")
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def timeline_ends(history: str) -> dict[int, int]:
    """Return the LSN at which each earlier timeline ended, by the number of the timeline.

    `history` is a timeline history file: comments, and lines with the number of a timeline, the LSN and a reason.
    Raises DataError.
    """
    lines = (line.split() for line in history.splitlines() if not line.lstrip().startswith("#"))
    return {int(fields[0]): parse_lsn(fields[1]) for fields in lines if len(fields) >= 2}
