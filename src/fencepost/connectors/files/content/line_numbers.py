"""Counts lines: the number of the line that begins at a position of a file.

A process usually needs the line numbers of a file's bad rows in the order of the rows. So each process keeps the last
positions that it counted up to, and continues from the nearest earlier position.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right, insort
from collections import OrderedDict
from io import FileIO
from typing import Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.connectors.files.content.ranges import count_lines, open_file, unreadable

_READ_BYTES: Final = 1 << 20
_FILES: Final = 64
_POSITIONS: Final = 256

_counted: OrderedDict[tuple[int, int, str], list[tuple[int, int]]] = OrderedDict()
_lock: Final = threading.Lock()


def line_number(path: str, position: int, allowed: AllowedPaths) -> int:
    """Return the number, from 1, of the line that begins at a position.

    A line ends at a line feed, a carriage return, or both in this order. Raises DataError if the file cannot be read.
    """
    with open_file(path, allowed) as file:
        status = os.fstat(file.fileno())
        identity = (status.st_dev, status.st_ino, path)
        with _lock:
            known = _counted.setdefault(identity, [(0, 1)])
            _counted.move_to_end(identity)
            start, line = known[bisect_right(known, (position, position + 1)) - 1]
            while len(_counted) > _FILES:
                _counted.popitem(last=False)
        line += _line_ends(file, path, start, position)
    with _lock:
        if (position, line) not in known:
            insort(known, (position, line))
            # The first entry is the file's beginning.
            del known[1 : len(known) - _POSITIONS]
    return line


def _line_ends(file: FileIO, path: str, start: int, end: int) -> int:
    count, returned = 0, False
    try:
        file.seek(start)
        while start < end and (data := file.read(min(_READ_BYTES, end - start))):
            count += count_lines(data)
            # The two characters of one line end may be in two reads.
            count -= returned and data.startswith(b"\n")
            returned = data.endswith(b"\r")
            start += len(data)
    except OSError as error:
        raise unreadable(path, error) from error
    return count
