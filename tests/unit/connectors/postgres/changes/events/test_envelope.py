"""Changes become events in Debezium's form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from fencepost.api.ddl import parse_columns
from fencepost.api.errors import DataError
from fencepost.connectors.postgres.changes.events.envelope import EnvelopeSettings, TableColumn, TableEvents
from fencepost.connectors.postgres.changes.position import Position
from fencepost.connectors.postgres.changes.stream.decoder import Decoder
from fencepost.connectors.postgres.changes.stream.relation import Relation, ReplicaIdentity
from fencepost.connectors.postgres.changes.stream.replication_frames import find_frames
from fencepost.connectors.postgres.types.temporal import DATE, TIMESTAMP, TIMESTAMPTZ, TIMETZ, TimePrecision
from fencepost.connectors.postgres.types.types import BYTEA, DecimalHandling, PostgresType, value_type
from tests.unit.connectors.postgres.changes.messages import (
    ACCOUNTS,
    UNCHANGED,
    begin,
    buffer,
    commit,
    delete,
    insert,
    relation,
    truncate,
    update,
)

SETTINGS = EnvelopeSettings("shop", "db")
TEXT = 25
FULL = replace(ACCOUNTS, identity=ReplicaIdentity.FULL)


def table(
    settings: EnvelopeSettings = SETTINGS, described: Relation = ACCOUNTS, *, key: str | None = "id", note: int = 25
) -> TableEvents:
    columns = [
        TableColumn(
            column.name,
            position,
            value_type(PostgresType(note if column.name == "note" else column.type_oid), DecimalHandling.PRECISE),
            column.name == key,
        )
        for position, column in enumerate(described.columns)
    ]
    return TableEvents(settings, described, columns, "shop.public.accounts")


def events(of: TableEvents, *messages: bytes) -> list[tuple[Any, Any]]:
    """Keys and values of the events for a transaction's messages."""
    data = buffer(begin(100, xid=7, commit_us=3_000_500), relation(of.relation), *messages, commit(100, 110))
    decoded = Decoder(Position(1)).decode(data, find_frames(data, len(data) - 64)[0])
    found: list[tuple[Any, Any]] = []
    for changes in decoded.changes:
        draft = of.draft(changes)
        if draft is not None:
            rows = draft.events(4_000)
            assert rows.schema.names == parse_columns(draft.schema).names
            keys = rows["key"].to_pylist() if "key" in rows.schema.names else [None] * len(rows)
            found += zip(keys, rows["value"].to_pylist(), strict=True)
    return found


def short(found: list[tuple[Any, Any]]) -> list[tuple[Any, ...]]:
    """Key, op, before and after of each event; a tombstone has no op."""
    return [
        (key and key["id"], None)
        if value is None
        else (key and key["id"], value["op"], value["before"], value["after"])
        for key, value in found
    ]


def row(number: int, owner: str | None = None, note: str | None = None) -> dict[str, Any]:
    return {"id": number, "owner": owner, "note": note}


def test_an_insert_has_the_row_and_where_it_is_from():
    ((key, value),) = events(table(), insert(ACCOUNTS, ["1", "ann", None], lsn=90))
    assert key == {"id": 1}
    source = value.pop("source")
    assert value == {"before": None, "after": row(1, "ann"), "op": "c", "ts_ms": 4000, "transaction": None}
    assert source.pop("version")
    assert source == {
        "connector": "postgresql", "name": "shop", "ts_ms": 3000, "ts_us": 3_000_500, "ts_ns": 3_000_500_000,
        "snapshot": "false", "db": "db", "sequence": '["100","0"]', "schema": "public", "table": "accounts", "txId": 7,
        "lsn": 90, "xmin": None,
    }  # fmt: skip


def test_a_delete_is_followed_by_a_tombstone():
    found = events(table(), delete(ACCOUNTS, ["1", None, None]), insert(ACCOUNTS, ["1", "bob", "x"]))
    assert short(found) == [(1, "d", row(1), None), (1, None), (1, "c", None, row(1, "bob", "x"))]


def test_tombstones_can_be_left_out():
    found = events(table(replace(SETTINGS, tombstones=False)), delete(ACCOUNTS, ["1", None, None]))
    assert short(found) == [(1, "d", row(1), None)]


def test_an_update_of_the_key_deletes_the_old_one_and_creates_the_new_one():
    found = events(table(), update(ACCOUNTS, ["2", "ann", None], old=["1", None, None]))
    assert short(found) == [(1, "d", row(1), None), (1, None), (2, "c", None, row(2, "ann"))]


def test_the_events_of_an_updated_key_have_the_other_key_in_a_header():
    messages = [insert(ACCOUNTS, ["1", None, None]), update(ACCOUNTS, ["2", "ann", None], old=["1", None, None])]
    data = buffer(begin(100), relation(ACCOUNTS), *messages, commit(100, 110))
    (changes,) = Decoder(Position(1)).decode(data, find_frames(data, len(data) - 64)[0]).changes
    draft = table().draft(changes)
    assert draft is not None
    assert draft.events(4_000)["headers"].to_pylist() == [
        [],
        [{"key": "__debezium.newkey", "value": {"id": 2}}],
        [],
        [{"key": "__debezium.oldkey", "value": {"id": 1}}],
    ]


@pytest.mark.parametrize(
    ("kind", "elements", "one", "two"),
    [(1700, None, "1.50", "2"), (1007, 23, "{1,2}", "{1}"), (701, None, "NaN", "-0")],
)
def test_a_key_of_any_type_may_be_updated_or_not(kind: int, elements: int | None, one: str, two: str):
    # A numeric without a scale is a struct (VariableScaleDecimal).
    described = replace(FULL, columns=(replace(FULL.columns[0], type_oid=kind), *FULL.columns[1:]))
    of = table(described=described)
    if elements is not None:
        item = PostgresType(elements)
        of = replace(
            of,
            columns=[
                replace(of.columns[0], type=value_type(PostgresType(kind, element=item), DecimalHandling.PRECISE)),
                *of.columns[1:],
            ],
        )
    messages = [
        update(described, [one, "bob", None], old=[one, "ann", None], full=True),
        update(described, [two, "bob", None], old=[one, "bob", None], full=True),
    ]
    assert [None if value is None else value["op"] for _, value in events(of, *messages)] == ["u", "d", None, "c"]


def test_an_update_has_the_old_row_if_the_replica_identity_is_full():
    messages = [
        update(FULL, ["1", "bob", None], old=["1", "ann", None], full=True),
        update(FULL, ["2", "bob", None], old=["1", "bob", None], full=True),
    ]
    assert short(events(table(described=FULL), *messages)) == [
        (1, "u", row(1, "ann"), row(1, "bob")),
        (1, "d", row(1, "bob"), None),
        (1, None),
        (2, "c", None, row(2, "bob")),
    ]


def test_a_table_without_a_key_has_no_tombstones():
    found = events(table(described=FULL, key=None), delete(FULL, ["1", "ann", None], full=True))
    assert short(found) == [(None, "d", row(1, "ann"), None)]


def test_a_large_value_that_did_not_change_is_marked():
    found = events(table(), update(ACCOUNTS, ["1", "bob", UNCHANGED]), update(ACCOUNTS, ["2", "bob", None]))
    assert [value["after"]["note"] for _, value in found] == ["__debezium_unavailable_value", None]


@pytest.mark.parametrize("placeholder", ["not sent", "2 days+00", "24:00+01", 'a"b\\c'])
@pytest.mark.parametrize("element", [TEXT, DATE, TIMESTAMP, TIMESTAMPTZ, TIMETZ])
def test_a_placeholder_in_an_array_is_not_read_as_a_value(placeholder: str, element: int):
    kind = PostgresType(1, element=PostgresType(element))
    given = table(replace(SETTINGS, placeholder=placeholder))
    columns = [
        replace(column, type=value_type(kind, DecimalHandling.PRECISE, TimePrecision.ISOSTRING))
        if column.name == "note"
        else column
        for column in given.columns
    ]
    messages = [update(ACCOUNTS, [str(row), "bob", note]) for row, note in enumerate((UNCHANGED, None, "{NULL}"))]
    found = events(replace(given, columns=columns), *messages)
    assert [value["after"]["note"] for _, value in found] == [[placeholder], None, [None]]


def test_bytes_that_were_not_sent_are_the_placeholder():
    found = events(
        table(note=BYTEA), update(ACCOUNTS, ["1", "bob", UNCHANGED]), update(ACCOUNTS, ["2", "bob", r"\x01"])
    )
    assert [value["after"]["note"] for _, value in found] == [b"__debezium_unavailable_value", b"\x01"]


def test_a_large_value_that_did_not_change_is_taken_from_the_old_row():
    messages = [
        update(FULL, ["1", "bob", UNCHANGED], old=["1", "ann", "large"], full=True),
        update(FULL, ["1", "bob", None], old=["1", "bob", "large"], full=True),
    ]
    assert [value["after"]["note"] for _, value in events(table(described=FULL), *messages)] == ["large", None]


def test_a_large_value_that_cannot_be_marked_is_refused_by_name():
    with pytest.raises(DataError, match=r"public\.accounts\.note .*REPLICA IDENTITY FULL"):
        events(table(note=1700), update(ACCOUNTS, ["1", "bob", UNCHANGED]))


def test_a_truncate_is_an_event_without_key_and_rows():
    found = events(table(), insert(ACCOUNTS, ["1", "ann", None]), truncate(ACCOUNTS))
    assert short(found)[1] == (None, "t", None, None)


def test_operations_can_be_skipped():
    skipping = table(replace(SETTINGS, skipped=frozenset("dt")))
    found = events(
        skipping, delete(ACCOUNTS, ["1", None, None]), truncate(ACCOUNTS), insert(ACCOUNTS, ["1", "a", None])
    )
    assert short(found) == [(1, "c", None, row(1, "a"))]


def test_a_row_of_the_snapshot_is_read():
    texts = [pa.array(["1", "2"]), pa.array(["ann", None]), pa.array([None, ""])]
    found = table().snapshot(texts, 77, 4000)
    assert found["key"].to_pylist() == [{"id": 1}, {"id": 2}]
    first, second = found["value"].to_pylist()
    assert (first["op"], first["after"], second["after"]) == ("r", row(1, "ann"), row(2, None, ""))
    assert (first["source"]["snapshot"], first["source"]["lsn"]) == ("true", 77)
