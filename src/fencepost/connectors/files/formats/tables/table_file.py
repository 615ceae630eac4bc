"""A Parquet, ORC or Avro file, and the position up to which its rows were returned.

The source offset contains the position and the file's identity, so that a replaced file is detected, whatever its size.
A Parquet or ORC file is read once it is complete. An Avro file is read once its header is complete, and then each block
once the block is complete.

    READ --the file changed--> checked: same identity, more rows or none --> READ
      |                                         |
      |                                         +--another identity, or fewer rows--> DataError
      +--incomplete--> waits --did not grow for a minute, or files are complete--> DataError
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from pyspark.sql.types import StructType

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError, RetriableError
from fencepost.connectors.files.content.compressed import TRUNCATED_SECONDS
from fencepost.connectors.files.content.growing import FILENAME_FIELD, SPLIT_BYTES
from fencepost.connectors.files.content.identity import Stamp
from fencepost.connectors.files.content.origin import ContentOrigin
from fencepost.connectors.files.content.ranges import open_file, unreadable
from fencepost.connectors.files.formats.tables.table import Group, IncompleteTableError, Table, TableFormat
from fencepost.connectors.files.formats.tables.table_reader import RowRange, open_table
from fencepost.connectors.rows.arrow_columns import spark_columns

GROUP_FIELD: Final = "group"
ROW_FIELD: Final = "row"
IDENTITY_FIELD: Final = "file"

_ENCRYPTED: Final = b"PARE"
_MAGIC: Final = {TableFormat.PARQUET: b"PAR1", TableFormat.ORC: b"ORC", TableFormat.AVRO: b"Obj\x01"}


@dataclass(frozen=True, slots=True)
class TablePosition:
    """The position before a row: `row` is the row's number in the group, from 0. `group` is None for the first group.

    `identity` is None if it is unknown: before the first check, or if a user set an offset without it.
    """

    group: int | None = None
    row: int = 0
    identity: str | None = None

    @classmethod
    def of(cls, path: str, offset: Mapping[str, Any] | None) -> Self:
        """Read a committed source offset. Raises DataError for an offset that was not written for these formats."""
        if offset is None:
            return cls()
        group, row, identity = offset.get(GROUP_FIELD), offset.get(ROW_FIELD, 0), offset.get(IDENTITY_FIELD)
        whole = all(type(number) is int and number >= 0 for number in (group, row))
        if not whole or not isinstance(identity, str | None):
            raise DataError(
                f"The offset {dict(offset)} of the file {path} is not of the form {{'{GROUP_FIELD}': <number>, "
                f"'{ROW_FIELD}': <number>}} with whole numbers of at least 0: correct it, or reset the connector's offsets"
            )
        return cls(group, row, identity)


class TableFile:
    """One file and its position. `clock` returns seconds."""

    def __init__(  # noqa: PLR0917 - as GrowingFile, with what is more
        self,
        origin: ContentOrigin,
        form: TableFormat,
        position: TablePosition,
        batch_bytes: int,
        allowed: AllowedPaths,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._origin = origin
        self.path = origin.path
        self.form = form
        self._position = position
        self._batch_bytes = batch_bytes
        self._allowed = allowed
        self._clock = clock
        self._grew_at = clock()
        self.seen: Stamp | None = None
        """The state of the file when it was last checked."""
        self._incomplete: str | None = None
        self._left: int | None = None
        self.columns = StructType()
        """The file's columns when it was last checked."""
        self.looked_at_size = -1
        """The file's size when it was last checked, -1 before the first check."""
        self.finished = False
        """Whether, when last checked, the file was complete and no row was left after the position."""

    @property
    def lag(self) -> int:
        """About how many bytes are left after the position.

        Raises DataError if the file was not checked yet and cannot be read.
        """
        return self._file_size() if self._left is None else self._left

    @property
    def partition(self) -> dict[str, Any]:
        """The file's source partition."""
        return {FILENAME_FIELD: self.path}

    @property
    def offset(self) -> dict[str, Any]:
        """The source offset of the position."""
        known = {GROUP_FIELD: self._position.group or 0, ROW_FIELD: self._position.row}
        return known | ({IDENTITY_FIELD: self._position.identity} if self._position.identity else {})

    def advance(self, *, whole: bool = False) -> list[RowRange]:
        """Return the next rows and move the position after them; nothing if there are none.

        `whole` means that the file is complete. Raises DataError for a file that is damaged, truncated or was replaced.
        Complete groups before damage or a truncation are returned first, and a later call raises. Raises RetriableError
        if an object store does not answer: the next call then reads again.
        """
        if self._origin.whole and self.finished:
            return []
        position = self._position
        try:
            return self._advance(whole=whole or self._origin.whole)
        except RetriableError:
            self._position, self.finished = position, False
            raise

    def _advance(self, *, whole: bool) -> list[RowRange]:
        if self._origin.is_missing(whole=whole and not self.finished):
            return []
        seen = self._origin.stamp()
        if seen is None:
            return []
        if seen != self.seen:
            self.seen, self._grew_at, self.looked_at_size = seen, self._clock(), seen[2]
            self._incomplete, self.finished = None, False
        if self.finished:
            return []
        if self._incomplete is None and (splits := self._look()):
            return splits
        if self._incomplete is not None and (whole or self._clock() - self._grew_at >= TRUNCATED_SECONDS):
            raise DataError(
                f"The file {self.path} is truncated, or no {self.form} file: {self._incomplete}. Bring the whole file and "
                "restart the task; the rows before are delivered"
            )
        return []

    def _look(self) -> list[RowRange]:
        self._check_magic()
        try:
            with open_table(self.path, self.form, self._allowed) as table:
                self._check_identity(table)
                self.columns = spark_columns(table.schema, f"the file {self.path}")
                return self._next(table)
        except IncompleteTableError as error:
            self._incomplete = str(error)
            return []

    def _check_magic(self) -> None:
        with open_file(self.path, self._allowed) as file:
            try:
                head = file.read(len(_MAGIC[self.form]))
            except OSError as error:
                raise unreadable(self.path, error) from error
        if head == _ENCRYPTED:
            raise DataError(
                f"The file {self.path} is a Parquet file with an encrypted footer, which is not read: write it without encryption"
            )
        if not _MAGIC[self.form].startswith(head):
            raise DataError(
                f"The file {self.path} is not a {self.form} file: it begins with {head!r}. Set the property format to what it "
                "is, or let the property files leave it out"
            )

    def _check_identity(self, table: Table) -> None:
        known = self._position
        if known.identity is not None and known.identity != table.identity:
            raise DataError(
                f"The file {self.path} was replaced by another one: its offset, row {known.row} of the group {known.group}, "
                f"belongs to the former file. Give new rows a file of their own name. Bring the former file back, or reset the "
                "connector's offsets to read the file that is there from its start"
            )
        group = table.first_key if known.group is None else known.group
        self._position = TablePosition(group, known.row, table.identity)

    def _next(self, table: Table) -> list[RowRange]:
        splits: list[RowRange] = []
        later: list[list[tuple[int, int]]] = []
        left = self._batch_bytes
        key, row = self._position.group or 0, self._position.row
        groups = table.groups(key)
        while left > 0:
            try:
                group = self._whole_group(groups)
            except DataError:
                if not splits:
                    raise
                # The rows before the damage are returned first. The next call starts at the damage, and raises.
                break
            if group is None:
                self.finished = self._incomplete is None
                break
            part = self._rest(group, row, table.identity)
            if part.size > left and splits:
                break
            if part.size > left:
                part = replace(part, rows=max(1, part.rows * left // part.size), size=left)
            if part.rows:
                self._add(splits, later, part)
            left -= part.size
            key, row = group.next, 0
            if part.skip + part.rows < group.rows:
                key, row = group.key, part.skip + part.rows
                break
        self._position = TablePosition(key, row, table.identity)
        self._left = table.left(key)
        return [replace(split, later=tuple(groups)) for split, groups in zip(splits, later, strict=True)]

    def _rest(self, group: Group, row: int, identity: str) -> RowRange:
        rows = group.rows - row
        if rows < 0:
            raise DataError(
                f"The file {self.path} has {group.rows} rows in its group {group.key}, but its offset says that it is to be "
                f"read on from row {row}: it was truncated or replaced, or the offset is wrong. Correct it, or reset the connector's offsets"
            )
        return RowRange(self.path, group.key, row, rows, group.size * rows // max(1, group.rows), identity)

    def _whole_group(self, groups: Any) -> Group | None:
        """Return the next group. Return None at the end of the file, also if the file ends in the middle of a group."""
        try:
            group: Group | None = next(groups, None)
        except IncompleteTableError as error:
            self._incomplete = str(error)
            return None
        return group

    @staticmethod
    def _add(splits: list[RowRange], later: list[list[tuple[int, int]]], added: RowRange) -> None:
        """Add rows to the last split if that split is small: the file is opened once for each split.

        `later` has the later groups of each split.
        """
        last = splits[-1] if splits else None
        if last is not None and last.size + added.size <= SPLIT_BYTES:
            splits[-1] = replace(last, rows=last.rows + added.rows, size=last.size + added.size)
            later[-1].append((last.skip + last.rows, added.group))
        else:
            splits.append(added)
            later.append([])

    def _file_size(self) -> int:
        stamp = self._origin.stamp()
        return 0 if stamp is None else stamp[2]
