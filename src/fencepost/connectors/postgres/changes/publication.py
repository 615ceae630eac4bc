"""The published tables while a task streams, and the user-defined types of their columns, for the source offset."""

from __future__ import annotations

from dataclasses import replace

from fencepost.connectors.postgres.changes.database import SourceDatabase
from fencepost.connectors.postgres.changes.known_types import SeenTypes
from fencepost.connectors.postgres.changes.position import Position, SourceState


class Publication:
    """Updates a source state from the server's catalog."""

    def __init__(self, database: SourceDatabase) -> None:
        self._database = database
        self._seen_types: SeenTypes | None = None
        """The types in the catalog when it was last read.

        None once the stream has passed the WAL position of that read.
        """
        self._new_table = False
        """Whether the stream has described a table since the last call of `refresh`."""

    def note_table(self) -> None:
        """Record that the stream has described a table."""
        self._new_table = True

    def refresh(self, state: SourceState) -> SourceState:
        """Return the state with the present parts of the publication, and with the present types of the columns."""
        parts = self._database.published_parts(state)
        self._seen_types = seen = self._database.user_types()
        # Known types are kept: changes that are still to be read may have types that were dropped meanwhile.
        return replace(state, publication=parts, types={**seen.types, **state.types})

    def refresh_for_new_table(self, state: SourceState) -> SourceState:
        """Return the state that `refresh` returns if the stream has described a new table, else the state unchanged.

        So the offset of a new table's first change already lists the table as published.
        """
        if not self._new_table:
            return state
        state = self.refresh(state)
        self._database.check_topics()
        self._new_table = False
        return state

    def forget_types(self, state: SourceState, position: Position) -> SourceState:
        """Return the state without dropped types, once the stream has passed all changes that have these types."""
        seen = self._seen_types
        if seen is None or position.lsn < seen.lsn:
            return state
        self._seen_types = None
        return replace(state, types=seen.types)
