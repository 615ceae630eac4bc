"""Binds an offset that a user sets to the file at the path: the offset gets the file's identity.

    the user's offset       {"position": 700}
    the stored offset       {"position": 700, "identity": "{inode, modified, end, head, tail}"}

A task commits the identity with the rows that it reads, so a committed offset is bound already. If a user's offset were
stored without an identity, the file could be renamed or replaced before a task has read a row. Then the renamed file
would be read again from its start, and the new file at the path would be read from the position.

An offset with an identity keeps it. But if the file at the path is a copy of the identity's file, for example on another
machine, the identity gets the copy's inode: otherwise a rename of the copy would not be recognised.

Objects cannot be renamed, so they have no identity of this kind. Their offsets get the version of the object, as in
committed offsets.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Collection, Mapping
from typing import Any

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import FencepostError
from fencepost.api.record import SourceOffset
from fencepost.connectors.files.config import ENCODING, table_format
from fencepost.connectors.files.content.codecs.compression import codec_in
from fencepost.connectors.files.content.codecs.foreign_content import UTF_8
from fencepost.connectors.files.content.growing import POSITION_FIELD
from fencepost.connectors.files.content.identity import IDENTITY_FIELD, FileIdentity
from fencepost.connectors.files.content.origin import OBJECT_FIELD
from fencepost.connectors.files.content.ranges import open_file, open_object
from fencepost.connectors.files.discovery.ended import ENDED_FIELD
from fencepost.connectors.files.discovery.foreign_identities import of_copy
from fencepost.connectors.files.formats.tables.table import IncompleteTableError
from fencepost.connectors.files.formats.tables.table_file import GROUP_FIELD, ROW_FIELD
from fencepost.connectors.files.formats.tables.table_file import IDENTITY_FIELD as TABLE_FIELD
from fencepost.connectors.files.formats.tables.table_reader import open_table
from fencepost.connectors.files.stores.objects import is_object


class Binding:
    """Binds offsets of a connector's files, according to the connector's properties."""

    def __init__(self, parsed: Mapping[str, Any], allowed: AllowedPaths, copies: Collection[str] = ()) -> None:
        """`copies` are the paths at which a copy of the offset's file is."""
        self._table = table_format(parsed)
        self._encoding = codecs.lookup(parsed[ENCODING]).name
        self._allowed = allowed
        self._copies = copies

    def bound(self, path: str, offset: SourceOffset) -> SourceOffset:
        """Return an offset with the identity of the file at the path.

        The offset stays unchanged if it already has an identity or an end mark, or if it is at the start of a file. It
        also stays unchanged if the file is missing or cannot be read: tasks wait for the file and bind the offset, or
        report the error.
        """
        if path in self._copies:
            return of_copy(path, offset, self._allowed)
        if ENDED_FIELD in offset or not any(offset.get(name) for name in (POSITION_FIELD, GROUP_FIELD, ROW_FIELD)):
            return offset
        try:
            return {**offset, **(self._of_object(path, offset) if is_object(path) else self._of_file(path, offset))}
        except (FencepostError, IncompleteTableError, OSError):
            return offset

    def _of_file(self, path: str, offset: SourceOffset) -> dict[str, Any]:
        # Opening a pipe would wait for its writer.
        if offset.get(IDENTITY_FIELD) is not None or not os.path.isfile(path):  # noqa: PTH113 - also for an invalid path
            return {}
        with open_file(path, self._allowed) as file:
            text = self._table is None and self._encoding == UTF_8
            plain = text and codec_in(file, path, self._encoding)[1] is None
            size = os.fstat(file.fileno()).st_size
            # A position in decoded content is not a position in the file. So the identity covers the whole file, as in
            # tasks.
            end = offset[POSITION_FIELD] if plain else size
            return {IDENTITY_FIELD: FileIdentity.of(file, end, plain=plain).in_json()} if end <= size else {}

    def _of_object(self, url: str, offset: SourceOffset) -> dict[str, Any]:
        if self._table is not None:
            if offset.get(TABLE_FIELD) is not None:
                return {}
            with open_table(url, self._table, self._allowed) as table:
                return {TABLE_FIELD: table.identity}
        if offset.get(OBJECT_FIELD) is not None:
            return {}
        with open_object(url, self._allowed) as opened:
            return {OBJECT_FIELD: opened.identity}
