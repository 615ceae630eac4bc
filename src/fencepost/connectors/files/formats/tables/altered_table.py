"""Checks an offset that a user wants to set against the Parquet, ORC or Avro file that is there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError, FencepostError
from fencepost.connectors.files.content.identity import FileIdentity
from fencepost.connectors.files.content.ranges import open_file
from fencepost.connectors.files.formats.tables.table import IncompleteTableError, Table, TableFormat
from fencepost.connectors.files.formats.tables.table_file import GROUP_FIELD, IDENTITY_FIELD, ROW_FIELD, TablePosition
from fencepost.connectors.files.formats.tables.table_reader import open_table
from fencepost.connectors.files.stores.objects import is_object


def check_altered_table(path: str, offset: Mapping[str, Any], form: TableFormat, allowed: AllowedPaths) -> None:
    """Raise DataError if an offset is of another content, or its position is beyond the end of its file.

    Only the footer is read, and of ORC a column of one stripe. These files are not checked: files that are not on this
    machine, cannot be read, are incomplete or damaged, objects, and files that are not the one of the offset's identity,
    because their file may have been renamed.
    """
    position = TablePosition.of(path, offset)
    try:
        if is_object(path) or not _is_at(path, FileIdentity.in_offset(path, offset), allowed):
            return
        with open_table(path, form, allowed) as table:
            wrong = _wrong(table, position)
    except (FencepostError, IncompleteTableError, OSError):
        # The task reports a file that cannot be read.
        return
    if wrong is not None:
        raise DataError(wrong)


def _is_at(path: str, identity: FileIdentity | None, allowed: AllowedPaths) -> bool:
    # Opening a pipe would wait for its writer.
    if not os.path.isfile(path):  # noqa: PTH113 - also False for an invalid path
        return False
    if identity is None:
        return True
    with open_file(path, allowed) as file:
        return identity.end <= os.fstat(file.fileno()).st_size and identity.begins(file)


def _wrong(table: Table, position: TablePosition) -> str | None:
    """Return what is wrong with a position in a table, None if a task can start there."""
    path, key, row = table.path, position.group or 0, position.row
    if position.identity not in (None, table.identity):
        return (
            f"The field {IDENTITY_FIELD} in the offset of the file {path} belongs to another content than the one that is "
            f"there: leave it out to have the file read on from the {GROUP_FIELD} and {ROW_FIELD}, or give null as the "
            "offset to have it read from its start"
        )
    try:
        group = next(table.groups(key), None)
    except DataError:
        return (
            f"The file {path} has no group {key}: give the {GROUP_FIELD} and {ROW_FIELD} of a row. It has {table.keys}"
        )
    if group is None and row:
        return (
            f"The file {path} ends before the group {key}, so there is no row {row} in it: give the {GROUP_FIELD} and "
            f"{ROW_FIELD} of a row. It has {table.keys}"
        )
    if group is not None and row > group.rows:
        return (
            f"The group {key} of the file {path} has {group.rows} rows, so there is no row {row} in it: give a {ROW_FIELD} "
            "from 0 on, or the group after it"
        )
    return None
