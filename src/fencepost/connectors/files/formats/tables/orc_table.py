"""ORC files. https://orc.apache.org/specification/."""

from __future__ import annotations

from collections.abc import Iterator
from io import FileIO
from typing import Final

import pyarrow as pa
from pyarrow import orc

from fencepost.connectors.files.formats.tables.table import (
    BATCH_BYTES,
    Group,
    IncompleteTableError,
    Table,
    identity_of_tail,
)

_POSTSCRIPT_LENGTH: Final = 1


class OrcTable(Table):
    """An ORC file. A group is a stripe; its size is the stripe's share of the file's bytes.

    Raises IncompleteTableError for a file without a footer.
    """

    def __init__(self, path: str, file: FileIO) -> None:
        super().__init__(path, file)
        try:
            self._table = orc.ORCFile(file)
        except (OSError, pa.ArrowException) as error:
            raise IncompleteTableError(str(error)) from error

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        try:
            return self._table.schema
        except pa.ArrowException as error:
            raise self._damaged(error) from error

    @property
    def identity(self) -> str:
        """A hash of the footer."""
        footer = self._table.file_footer_length + self._table.file_postscript_length + _POSTSCRIPT_LENGTH
        return identity_of_tail(self._file, footer)

    @property
    def first_key(self) -> int:
        """The number of the first stripe, 0."""
        return 0

    @property
    def keys(self) -> str:
        """How many stripes there are."""
        return f"{self._table.nstripes} groups, with numbers from 0 on"

    def groups(self, key: int) -> Iterator[Group]:
        """Yield the stripes. pyarrow shows row counts only by reading a column, so the first column is read."""
        if not 0 <= key <= self._table.nstripes:
            raise self._no_group(key)
        for number in range(key, self._table.nstripes):
            try:
                rows = self._table.read_stripe(number, columns=[0]).num_rows
            except (OSError, pa.ArrowException) as error:
                raise self._damaged(error) from error
            yield Group(number, number + 1, rows, self._stripe_size)

    def batches(self, key: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of about one MiB. A whole stripe is in memory."""
        del rows
        for number in range(key, self._table.nstripes):
            stripe = self._table.read_stripe(number)
            together = max(1, BATCH_BYTES * stripe.num_rows // max(1, stripe.nbytes))
            for begin in range(0, stripe.num_rows, together):
                yield stripe.slice(begin, together)

    def left(self, key: int) -> int:
        """Return the size of a stripe and all later ones."""
        return self._stripe_size * (int(self._table.nstripes) - key)

    @property
    def _stripe_size(self) -> int:
        return int(self._table.content_length) // max(1, int(self._table.nstripes))
