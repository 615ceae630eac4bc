"""The published tables while a task streams, and the user-made types of their columns, as the source offset keeps them."""

from __future__ import annotations

from dataclasses import replace

from fencepost.connectors.postgres.changes.database import SourceDatabase
from fencepost.connectors.postgres.changes.known_types import SeenTypes
from fencepost.connectors.postgres.changes.position import Position, SourceState


class Publication:
    """Brings a source state up to date with the server's catalog."""

    def __init__(self, database: SourceDatabase) -> None:
        self._database = database
        self._seen_types: SeenTypes | None = None
        """The types that the catalog had, until the stream is past them."""
        self._new_table = False
        """Whether the stream described a table since the last call of `look`."""

    def note_table(self) -> None:
        """Note that the stream describes a table."""
        self._new_table = True

    def look(self, state: SourceState) -> SourceState:
        """Return the state with the present parts of the publication, and with the types of the columns."""
        parts = self._database.published_parts(state)
        self._seen_types = seen = self._database.user_types()
        # Changes that are still to be read may have types that are dropped.
        return replace(state, publication=parts, types={**seen.types, **state.types})

    def look_for_new_table(self, state: SourceState) -> SourceState:
        """Return the same if a table is new: the offset with its first change then lists it as published."""
        if not self._new_table:
            return state
        state = self.look(state)
        self._database.check_topics()
        self._new_table = False
        return state

    def forget_types(self, state: SourceState, position: Position) -> SourceState:
        """Return the state without the dropped types, once the stream is past all changes that have them."""
        seen = self._seen_types
        if seen is None or position.lsn < seen.lsn:
            return state
        self._seen_types = None
        return replace(state, types=seen.types)
