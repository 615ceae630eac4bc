"""Events are numbered within their transactions, wherever the stream is cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fencepost.connectors.postgres.changes.events.batches import TableBatches
from fencepost.connectors.postgres.changes.events.transactions import transaction_metadata
from fencepost.connectors.postgres.changes.position import PartialTransaction, Position, SourceState
from fencepost.connectors.postgres.changes.stream.decoder import Decoder
from fencepost.connectors.postgres.changes.stream.relation import Relation
from fencepost.connectors.postgres.changes.stream.replication_frames import find_frames
from tests.unit.connectors.postgres.changes.events.test_envelope import table
from tests.unit.connectors.postgres.changes.messages import (
    ACCOUNTS,
    HISTORY,
    begin,
    buffer,
    commit,
    delete,
    insert,
    relation,
    truncate,
    update,
)

SECOND = 1_000_000


def block(*messages: bytes) -> bytearray:
    return buffer(*messages)


class Reader:
    """Reads blocks like the streaming code, and keeps the transaction's events and metadata."""

    def __init__(self) -> None:
        self.tables = TableBatches(self._events)
        self.decoder = Decoder(Position(1), self.tables.learn)
        self.open: PartialTransaction | None = None
        self.events: list[tuple[Any, ...]] = []
        """Table, operation, id, total_order and data_collection_order of each event."""
        self.boundaries: list[dict[str, Any]] = []

    @staticmethod
    def _events(described: Relation) -> Any:
        return table(described=described, key=described.columns[0].name)

    def read(self, *messages: bytes) -> None:
        data = block(*messages)
        decoded = self.decoder.decode(data, find_frames(data, len(data) - 64)[0])
        drafts = self.tables.drafts(decoded.changes)
        position = self.decoder.position
        told = transaction_metadata(drafts, self.open, position.commit_lsn if position.changes else None)
        for draft, transaction in zip(drafts, told.blocks, strict=True):
            for value in draft.events(4_000, transaction)["value"].to_pylist():
                if value is not None:
                    place = value["transaction"]
                    self.events.append((value["source"]["table"], value["op"], *place.values()))
        if told.boundaries is not None:
            assert told.boundaries["key"].to_pylist() == [
                {"id": value["id"]} for value in told.boundaries["value"].to_pylist()
            ]
            self.boundaries += told.boundaries["value"].to_pylist()
        self.open = told.after


def told_begin(transaction: str, ts_ms: int) -> dict[str, Any]:
    return {"status": "BEGIN", "id": transaction, "event_count": None, "data_collections": None, "ts_ms": ts_ms}


def told_end(transaction: str, ts_ms: int, **counts: int) -> dict[str, Any]:
    tables = [{"data_collection": f"public.{name}", "event_count": count} for name, count in counts.items()]
    return {
        "status": "END", "id": transaction, "event_count": sum(counts.values()), "data_collections": tables,
        "ts_ms": ts_ms,
    }  # fmt: skip


DESCRIBED = (relation(ACCOUNTS), relation(HISTORY))


def test_events_of_all_tables_are_numbered_in_the_order_of_their_changes():
    reader = Reader()
    reader.read(
        *DESCRIBED, begin(100, xid=7, commit_us=3 * SECOND), insert(ACCOUNTS, ["1", "ann", None]), insert(HISTORY, ["1"]),
        insert(ACCOUNTS, ["2", "bob", None]), commit(100, 110),
        begin(200, xid=9, commit_us=5 * SECOND), insert(HISTORY, ["2"]), commit(200, 210),
    )  # fmt: skip

    assert sorted(reader.events, key=lambda event: (event[2], event[3])) == [
        ("accounts", "c", "7:100", 1, 1),
        ("history", "c", "7:100", 2, 1),
        ("accounts", "c", "7:100", 3, 2),
        ("history", "c", "9:200", 1, 1),
    ]
    assert reader.boundaries == [
        told_begin("7:100", 3000), told_end("7:100", 3000, accounts=2, history=1),
        told_begin("9:200", 5000), told_end("9:200", 5000, history=1),
    ]  # fmt: skip
    assert reader.open is None


def test_tombstones_do_not_count_and_a_changed_key_counts_twice():
    reader = Reader()
    moved = update(ACCOUNTS, ["2", "ann", None], old=["1", None, None])
    reader.read(
        *DESCRIBED, begin(100), moved, insert(HISTORY, ["1"]), delete(ACCOUNTS, ["2", None, None]),
        truncate(ACCOUNTS, HISTORY), commit(100, 110),
    )  # fmt: skip

    assert sorted(reader.events, key=lambda event: event[3]) == [
        ("accounts", "d", "7:100", 1, 1),
        ("accounts", "c", "7:100", 2, 2),
        ("history", "c", "7:100", 3, 1),
        ("accounts", "d", "7:100", 4, 3),
        ("accounts", "t", "7:100", 5, 4),
        ("history", "t", "7:100", 6, 2),
    ]
    assert reader.boundaries[-1]["event_count"] == 6


def test_a_transaction_without_events_has_no_records():
    reader = Reader()
    reader.read(begin(100), commit(100, 110))
    assert (reader.events, reader.boundaries, reader.open) == ([], [], None)


CHANGES: dict[str, bytes] = {
    "account": insert(ACCOUNTS, ["1", "ann", None]),
    "history": insert(HISTORY, ["1"]),
    "moved": update(ACCOUNTS, ["2", "ann", None], old=["1", None, None]),
}


@given(st.lists(st.lists(st.sampled_from(list(CHANGES)), max_size=4), max_size=4), st.sets(st.integers(1, 24)))
def test_any_cut_of_the_stream_gives_the_same_events(transactions: Sequence[Sequence[str]], cuts: set[int]):
    messages = list(DESCRIBED)
    for number, changes in enumerate(transactions, 1):
        messages += [
            begin(number * 100, xid=number),
            *(CHANGES[change] for change in changes),
            commit(number * 100, number * 100 + 10),
        ]
    whole, cut = Reader(), Reader()
    whole.read(*messages)
    bounds = [0, *sorted(at for at in cuts if at < len(messages)), len(messages)]
    for low, high in pairwise(bounds):
        cut.read(*messages[low:high])

    assert sorted(cut.events) == sorted(whole.events)
    assert cut.boundaries == whole.boundaries
    assert [value["id"] for value in whole.boundaries[::2]] == [
        f"{number}:{number * 100}" for number, changes in enumerate(transactions, 1) if changes
    ]


def test_the_counts_of_an_unfinished_transaction_are_in_the_offset():
    partial = PartialTransaction(500, 7, 3 * SECOND, {"public.accounts": 3})
    state = SourceState("slot", "1", 1, Position(400, 500, 4), None, partial)
    assert SourceState.of(state.offset()) == state
    # Between transactions, the offset has no transaction.
    assert "transaction" not in state.at(Position(510)).offset()
