"""Positions in a server's write-ahead log, and the source offsets that store them.

A position is the end of the last transaction that was read completely. If a part of the next transaction was read too,
the position also has that transaction's commit LSN and the number of its changes that were read. An LSN alone does not
identify a change, because all rows of one COPY share one LSN. But counting finds the change: the server always sends
transactions in commit order, and after a restart of the stream it sends the whole transaction again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fencepost.api.errors import DataError
from fencepost.connectors.postgres.changes.incremental import NOTHING, SnapshotProgress
from fencepost.connectors.postgres.changes.known_types import KnownTypes, parse_types, types_text
from fencepost.connectors.postgres.server.lsn import lsn_text, parse_lsn

LSN: Final = "lsn"
COMMIT_LSN: Final = "lsn_commit"
CHANGES: Final = "changes"
SYSTEM: Final = "system_identifier"
TIMELINE: Final = "timeline"
PUBLICATION: Final = "publication"
SNAPSHOT: Final = "snapshot"
SLOT: Final = "slot"
TRANSACTION: Final = "transaction"
INCREMENTAL: Final = "incremental_snapshot"
TYPES: Final = "types"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """All transactions that end by `lsn`, and the first `changes` changes of the transaction at `commit_lsn`.

    `commit_lsn` and `changes` are 0 between transactions. Positions are ordered in the same way as the log.
    """

    lsn: int
    commit_lsn: int = 0
    changes: int = 0

    def __str__(self) -> str:
        part = f" and {self.changes} changes of the transaction at {lsn_text(self.commit_lsn)}" if self.changes else ""
        return lsn_text(self.lsn) + part


@dataclass(frozen=True, slots=True)
class PartialTransaction:
    """A transaction that was partly read: how many events of each table were read so far.

    `commit_us` is the time of the commit, in microseconds since 1970.
    """

    commit_lsn: int
    xid: int
    commit_us: int
    events: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SourceState:
    """The content of a source offset: a position, and the server, slot and publication that it belongs to.

    `position` is None until the first snapshot is committed. Until then only the connector uses the slot, so the slot
    may be replaced. `publication` has the parts of the publication, each with a mark that changes when the part is
    altered (see `slot.publication_parts`); None accepts any publication at the next start. `transaction` is the
    transaction in which the position lies, if its events are counted. `incremental` is the progress of incremental
    snapshots. `types` are the user-defined types of the columns of captured tables.
    """

    slot: str
    system: str
    timeline: int
    position: Position | None
    publication: Mapping[str, str] | None = None
    transaction: PartialTransaction | None = None
    incremental: SnapshotProgress = NOTHING
    types: KnownTypes = field(default_factory=dict)

    def at(self, position: Position) -> SourceState:
        """Return the state at another position of the same log."""
        return replace(self, position=position)

    def offset(self) -> dict[str, Any]:
        """Return the source offset."""
        offset: dict[str, Any] = {SLOT: self.slot, SYSTEM: self.system, TIMELINE: self.timeline}
        if self.publication is not None:
            offset[PUBLICATION] = json.dumps(self.publication, sort_keys=True, separators=(",", ":"))
        if self.position is None:
            return offset | {SNAPSHOT: "started"}
        offset[LSN] = lsn_text(self.position.lsn)
        if (progress := self.incremental.text()) is not None:
            offset[INCREMENTAL] = progress
        if self.types:
            offset[TYPES] = types_text(self.types)
        if self.position.changes:
            offset |= {COMMIT_LSN: lsn_text(self.position.commit_lsn), CHANGES: self.position.changes}
            if (open_ := self.transaction) is not None:
                counted = {"txId": open_.xid, "ts_us": open_.commit_us, "events": open_.events}
                offset[TRANSACTION] = json.dumps(counted, separators=(",", ":"))
        return offset

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> SourceState:
        """Return the state in a source offset. Raises DataError if it is invalid."""
        if SLOT not in offset and isinstance(offset.get(LSN), int):
            raise _of_debezium(offset)
        for name, kind in ((SLOT, str), (SYSTEM, str), (TIMELINE, int)):
            _require(offset, name, kind)
        publication = None if offset.get(PUBLICATION) is None else _parts(offset)
        state = cls(offset[SLOT], offset[SYSTEM], offset[TIMELINE], None, publication)
        if offset.get(SNAPSHOT) == "started":
            return state
        _require(offset, LSN, str)
        if offset.get(INCREMENTAL) is not None:
            state = replace(state, incremental=_progress(offset))
        if offset.get(TYPES) is not None:
            state = replace(state, types=_types(offset))
        if CHANGES not in offset:
            return state.at(Position(parse_lsn(offset[LSN])))
        _require(offset, COMMIT_LSN, str)
        _require(offset, CHANGES, int)
        position = Position(parse_lsn(offset[LSN]), parse_lsn(offset[COMMIT_LSN]), offset[CHANGES])
        return replace(state, position=position, transaction=_transaction(offset, position.commit_lsn))


def _parts(offset: Mapping[str, Any]) -> dict[str, str]:
    """Return the parts of a publication, which an offset stores as JSON text, because offsets have no nested values."""
    try:
        parts = json.loads(offset[PUBLICATION])
    except (TypeError, ValueError):
        parts = None
    if not isinstance(parts, dict):
        raise DataError(
            f"The field {PUBLICATION} of the source offset {dict(offset)} is not as the connector writes it: remove it to "
            "accept the publication as it is"
        )
    return parts


def _progress(offset: Mapping[str, Any]) -> SnapshotProgress:
    try:
        return SnapshotProgress.parse(offset[INCREMENTAL])
    except (TypeError, ValueError):
        raise DataError(
            f"The field {INCREMENTAL} of the source offset {dict(offset)} is not as the connector writes it: remove it to "
            "end all incremental snapshots"
        ) from None


def _types(offset: Mapping[str, Any]) -> KnownTypes:
    try:
        return parse_types(offset[TYPES])
    except (TypeError, ValueError):
        raise DataError(
            f"The field {TYPES} of the source offset {dict(offset)} is not as the connector writes it: remove it, if no type "
            "was dropped since"
        ) from None


def _transaction(offset: Mapping[str, Any], commit_lsn: int) -> PartialTransaction | None:
    if offset.get(TRANSACTION) is None:
        return None
    try:
        counted = json.loads(offset[TRANSACTION])
        events = {str(table): int(count) for table, count in counted["events"].items()}
        return PartialTransaction(commit_lsn, int(counted["txId"]), int(counted["ts_us"]), events)
    except (TypeError, ValueError, KeyError, AttributeError):
        raise DataError(
            f"The field {TRANSACTION} of the source offset {dict(offset)} is not as the connector writes it: remove it to "
            "count the transaction's events from there on"
        ) from None


def _of_debezium(offset: Mapping[str, Any]) -> DataError:
    """Return the error for an offset of Debezium's connector, which has an LSN as a number, and no slot."""
    return DataError(
        f"The source offset {dict(offset)} was written by Debezium's connector in Java, and PostgresSource cannot continue "
        "there. If the connector is to run in Java, put the same jars into plugin.path of each worker of the group, and restart "
        "the workers that lack them. To continue with PostgresSource, set snapshot.mode=no_data and remove the offset while "
        "nothing changes"
    )


def _require(offset: Mapping[str, Any], name: str, kind: type) -> None:
    if not isinstance(offset.get(name), kind) or isinstance(offset.get(name), bool):
        raise DataError(
            f"The source offset {dict(offset)} has no {name} that is a {kind.__name__}: "
            "set an offset as the connector writes it, or remove it to begin with a new snapshot"
        )
