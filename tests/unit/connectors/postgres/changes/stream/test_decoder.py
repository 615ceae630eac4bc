"""Blocks of messages become columns, with each change's position in the log."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.connectors.postgres.changes.position import Position
from fencepost.connectors.postgres.changes.stream.decoder import Changes, Decoder
from fencepost.connectors.postgres.changes.stream.relation import Column, Relation
from fencepost.connectors.postgres.changes.stream.replication_frames import find_frames
from tests.unit.connectors.postgres.changes.messages import (
    ACCOUNTS,
    HISTORY,
    UNCHANGED,
    begin,
    buffer,
    commit,
    delete,
    insert,
    keepalive,
    message,
    relation,
    truncate,
    type_name,
    update,
)

START = Position(50)


def decode(decoder: Decoder, *messages: bytes) -> list[Changes]:
    data = buffer(*messages)
    starts, end = find_frames(data, len(data) - 64)
    assert end == len(data) - 64
    return decoder.decode(data, starts).changes


def shown(changes: list[Changes]) -> list[tuple[Any, ...]]:
    """Table, operation, new and old row of each change."""
    return [
        (part.relation.table, chr(part.operation[row]), _row(part.new, row), _row(part.old, row))
        for part in changes
        for row in range(len(part))
    ]


def _row(rows: Any, change: int) -> list[Any] | None:
    index = int(rows.index[change])
    return None if index < 0 else [column.values[index].as_py() for column in rows.columns]


def test_each_operation_has_its_rows():
    changes = decode(
        Decoder(START),
        begin(100),
        relation(ACCOUNTS),
        insert(ACCOUNTS, ["1", "ann", None]),
        update(ACCOUNTS, ["1", "bob", ""]),
        update(ACCOUNTS, ["2", "bob", "x"], old=["1", None, None]),
        delete(ACCOUNTS, ["2", None, None]),
        commit(100, 110),
    )
    assert shown(changes) == [
        ("accounts", "I", ["1", "ann", None], None),
        ("accounts", "U", ["1", "bob", ""], None),
        ("accounts", "U", ["2", "bob", "x"], ["1", None, None]),
        ("accounts", "D", None, ["2", None, None]),
    ]


def test_changes_are_numbered_over_all_tables_of_their_transaction():
    changes = decode(
        Decoder(START),
        *(begin(100, xid=3, commit_us=5_000_000), relation(ACCOUNTS), relation(HISTORY)),
        *(insert(ACCOUNTS, ["1", "a", None]), insert(HISTORY, ["1"]), insert(ACCOUNTS, ["2", "a", None])),
        *(commit(100, 110), begin(120, xid=4), insert(HISTORY, ["2"]), commit(120, 130)),
    )
    found = {
        (part.relation.table, int(lsn), int(number), int(xid))
        for part in changes
        for lsn, number, xid in zip(part.commit_lsn, part.number, part.xid, strict=True)
    }
    assert found == {("accounts", 100, 0, 3), ("history", 100, 1, 3), ("accounts", 100, 2, 3), ("history", 120, 0, 4)}
    assert changes[0].commit_us[0] == 5_000_000


def test_a_value_that_was_not_sent_is_marked():
    (changes,) = decode(
        Decoder(START),
        *(begin(100), relation(ACCOUNTS), update(ACCOUNTS, ["1", "a", UNCHANGED]), update(ACCOUNTS, ["1", "b", None])),
        commit(100, 110),
    )
    assert changes.new.columns[1].unchanged is None
    assert changes.new.columns[2].unchanged.tolist() == [True, False]


def test_the_position_is_the_end_of_the_last_whole_transaction():
    decoder = Decoder(START)
    assert decoder.position == START
    decode(decoder, begin(100), relation(HISTORY), insert(HISTORY, ["1"]), commit(100, 110), begin(120))
    assert decoder.position == Position(110)
    decode(decoder, insert(HISTORY, ["2"]), insert(HISTORY, ["3"]))
    assert decoder.position == Position(110, 120, 2)
    decode(decoder, insert(HISTORY, ["4"]), commit(120, 140))
    assert decoder.position == Position(140)


def test_a_keepalive_moves_the_position_between_transactions_only():
    decoder = Decoder(START)
    decode(decoder, keepalive(90))
    assert decoder.position == Position(90)
    decode(decoder, begin(100), relation(HISTORY), insert(HISTORY, ["1"]), keepalive(95))
    assert decoder.position == Position(90, 100, 1)


def test_a_keepalive_that_wants_an_answer_is_reported():
    data = buffer(keepalive(5), keepalive(9, reply=True))
    decoded = Decoder(START).decode(data, find_frames(data, len(data) - 64)[0])
    assert (decoded.wal_end, decoded.reply) == (9, True)


TRANSACTIONS = [
    *(begin(100), relation(HISTORY), *(insert(HISTORY, [str(n)], lsn=99) for n in range(5)), commit(100, 110)),
    *(begin(120), *(insert(HISTORY, [str(n)], lsn=119) for n in range(5, 9)), commit(120, 130)),
]


def sent_from(lsn: int) -> list[bytes]:
    """The messages that a server sends from a position on: whole transactions that commit behind it."""
    if lsn <= 100:
        return TRANSACTIONS
    return [relation(HISTORY), *TRANSACTIONS[8:]] if lsn <= 120 else []


@given(st.lists(st.integers(0, len(TRANSACTIONS)), max_size=6), st.data())
def test_a_stream_that_is_cut_anywhere_resumes_at_the_next_change(cuts: list[int], data: st.DataObject):
    """All rows of a COPY share an LSN, so their number is needed to know which were read."""
    position, found = START, []
    for cut in [*cuts, len(TRANSACTIONS)]:
        decoder = Decoder(position)
        again = sent_from(position.lsn)[:cut]
        blocks = sorted(data.draw(st.lists(st.integers(0, len(again)), max_size=3)))
        for low, high in zip([0, *blocks], [*blocks, len(again)], strict=True):
            found += [row[2] for row in shown(decode(decoder, *again[low:high]))]
        assert decoder.position >= position
        position = decoder.position
    assert found == [[str(n)] for n in range(9)]
    assert position == Position(130)


WITH_MESSAGES = [
    *(begin(100), relation(HISTORY), insert(HISTORY, ["1"])),
    *(message("p", b"inside", lsn=98, transactional=True), insert(HISTORY, ["2"]), commit(100, 110)),
    message("p", b"loose", lsn=115, transactional=False),
    *(begin(120), insert(HISTORY, ["3"]), commit(120, 130)),
]


def sent_with_messages(lsn: int) -> list[bytes]:
    """Non-transactional messages are sent if they begin at the position or behind it."""
    if lsn <= 100:
        return WITH_MESSAGES
    return [relation(HISTORY), *WITH_MESSAGES[6 if lsn <= 115 else 7 :]] if lsn <= 120 else []


@given(st.lists(st.integers(0, len(WITH_MESSAGES)), max_size=6), st.data())
def test_logical_messages_arrive_once_wherever_a_stream_is_cut(cuts: list[int], data: st.DataObject):
    position, found = START, []
    for cut in [*cuts, len(WITH_MESSAGES)]:
        decoder = Decoder(position)
        again = sent_with_messages(position.lsn)[:cut]
        blocks = sorted(data.draw(st.lists(st.integers(0, len(again)), max_size=3)))
        for low, high in zip([0, *blocks], [*blocks, len(again)], strict=True):
            block = buffer(*again[low:high])
            decoded = decoder.decode(block, find_frames(block, len(block) - 64)[0])
            found += [row[2][0] for row in shown(decoded.changes)]
            found += [f"{one.content.decode()} {one.number} {one.xid}" for one in decoded.messages]
        assert decoder.position >= position
        position = decoder.position
    assert sorted(found) == ["1", "2", "3", "inside 1 7", "loose None None"]
    assert position == Position(130)


def test_a_relation_that_changes_in_mid_stream_holds_for_the_rows_after_it():
    wider = Relation(
        HISTORY.oid, "public", "history", HISTORY.identity, (*HISTORY.columns, Column("note", 25, -1, identity=False))
    )
    known: list[Relation] = []
    changes = decode(
        Decoder(START, known.append),
        *(begin(100), relation(HISTORY), insert(HISTORY, ["1"]), commit(100, 110), begin(120), relation(wider)),
        *(insert(wider, ["2", "new"]), relation(wider), insert(wider, ["3", None]), commit(120, 130)),
    )
    assert shown(changes) == [
        ("history", "I", ["1"], None),
        ("history", "I", ["2", "new"], None),
        ("history", "I", ["3", None], None),
    ]
    assert known == [HISTORY, wider]


def test_a_table_that_takes_the_name_of_another_has_its_rows_after_those():
    other = Relation(HISTORY.oid - 1, HISTORY.schema, HISTORY.table, HISTORY.identity, HISTORY.columns)
    changes = decode(
        Decoder(START),
        *(begin(100), relation(HISTORY), insert(HISTORY, ["1"]), commit(100, 110)),
        *(begin(120), relation(other), insert(other, ["2"]), commit(120, 130)),
    )
    assert shown(changes) == [("history", "I", ["1"], None), ("history", "I", ["2"], None)]


def test_a_truncate_keeps_its_place_between_changes():
    changes = decode(
        Decoder(START),
        *(begin(100), relation(ACCOUNTS), relation(HISTORY), insert(HISTORY, ["1"]), truncate(HISTORY, ACCOUNTS)),
        *(insert(HISTORY, ["1"]), commit(100, 110)),
    )
    assert [(table, operation) for table, operation, _, _ in shown(changes)] == [
        ("history", "I"), ("history", "T"), ("accounts", "T"), ("history", "I"),
    ]  # fmt: skip


@given(st.lists(st.tuples(st.text(max_size=20), st.none() | st.text(max_size=20)), max_size=30))
def test_any_text_arrives_unchanged(texts: list[tuple[str, str | None]]):
    texts = [(owner.replace("\0", ""), None if note is None else note.replace("\0", "")) for owner, note in texts]
    rows = [[str(number), owner, note] for number, (owner, note) in enumerate(texts)]
    changes = decode(
        Decoder(START), begin(100), relation(ACCOUNTS), *(insert(ACCOUNTS, row) for row in rows), commit(100, 110)
    )
    assert [row[2] for row in shown(changes)] == rows


@pytest.mark.parametrize("full", [False, True])
def test_old_rows_are_decoded_by_replica_identity(full: bool):
    old = ["1", "a", "b"] if full else ["1", None, None]
    changes = decode(Decoder(START), begin(1), relation(ACCOUNTS), delete(ACCOUNTS, old, full=full), commit(1, 2))
    assert shown(changes) == [("accounts", "D", None, old)]


def test_a_columns_schema_has_the_types_name_at_that_position_of_the_log():
    def table(*names: tuple[str, str] | None) -> Relation:
        oids = (16500, 16501, 23)
        columns = [Column(f"c{oid}", oid, -1, False, name) for oid, name in zip(oids, names, strict=True)]
        return Relation(1003, "public", "typed", ACCOUNTS.identity, tuple(columns))

    described: list[Relation] = []
    plain, row = table(None, None, None), [None, None, None]
    changes = decode(
        Decoder(START, described.append),
        begin(100),
        type_name(16500, "", "numeric"),
        type_name(16501, "public", "mood"),
        relation(plain),
        insert(plain, row),
        type_name(16501, "app", "feeling"),
        relation(plain),
        insert(plain, row),
        commit(100, 110),
    )
    expected = [
        table(("pg_catalog", "numeric"), ("public", "mood"), None),
        table(("pg_catalog", "numeric"), ("app", "feeling"), None),
    ]
    assert described == expected
    assert [part.relation for part in changes] == expected
