"""Reads the columns of tables while a configuration is validated, which must not take long."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

SECONDS: Final = 5.0
"""The maximum time for reading the columns of all tables."""

_log: Final = logging.getLogger(__name__)


def in_time(tables: Collection[T]) -> Iterator[T]:
    """Yield the tables one by one, until SECONDS have passed.

    The schemas of tables that are not yielded are checked when their rows are written.
    """
    end = time.monotonic() + SECONDS
    for number, table in enumerate(tables):
        if time.monotonic() > end:
            _log.info("Columns of %d of %d tables were read in %g s", number, len(tables), SECONDS)
            return
        yield table
