"""Source offsets store a position, and the slot, tables and publication to which it belongs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fencepost.api.errors import DataError
from fencepost.connectors.postgres.changes.connection import PositionLostError, PostgresError
from fencepost.connectors.postgres.changes.position import Position, SourceState
from fencepost.connectors.postgres.changes.slot.slot import Server, Slot, check_publication, check_slot, check_state
from fencepost.connectors.postgres.types.types import TypeInfo
from tests.support.refusals import refusal

STATE = SourceState("slot", "7000", 1, Position(0x16B374D848), {"": "1.t", "public.t": "2.abc.7"})
SLOT = Slot("slot", "pgoutput", "shop", None, 0x16B374D848, "reserved", None)
SERVER = Server("7000", 1, 0x16B374D900)


@pytest.mark.parametrize(
    "state",
    [
        STATE,
        STATE.at(Position(1, 2, 3)),
        SourceState("slot", "7000", 2, None),
        SourceState("slot", "7000", 2, Position(5)),
        SourceState(
            "slot", "7000", 2, Position(5), types={16500: TypeInfo(1700, 655366), 16501: TypeInfo(element=16500)}
        ),
    ],
)
def test_a_state_is_read_back_from_its_offset(state: SourceState):
    assert SourceState.of(json.loads(json.dumps(state.offset()))) == state


def test_an_offset_of_debezium_is_refused_with_advice_about_its_jars():
    with pytest.raises(DataError) as refused:
        SourceState.of({"lsn_proc": 24817784, "messageType": "INSERT", "lsn": 24817784, "txId": 751, "ts_usec": 7})
    assert "plugin.path of each worker" in str(refused.value)
    assert "snapshot.mode=no_data" in str(refused.value)


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"slot": "s", "system_identifier": "7", "timeline": 1},
        {"slot": "s", "system_identifier": "7", "timeline": "1", "lsn": "0/1"},
        {"slot": "s", "system_identifier": "7", "timeline": 1, "lsn": "1"},
        {"slot": "s", "system_identifier": "7", "timeline": 1, "lsn": "0/1", "changes": 5},
        {"slot": "s", "system_identifier": "7", "timeline": 1, "lsn": "0/1", "publication": "all"},
        {"slot": "s", "system_identifier": "7", "timeline": 1, "lsn": "0/1", "types": 16500},
        {"slot": "s", "system_identifier": "7", "timeline": 1, "lsn": "0/1", "types": "[16500]"},
        {"slot": "s", "system_identifier": "7", "timeline": 1, "lsn": "0/1", "types": '{"price": [1700, -1, 0]}'},
        {"slot": "s", "system_identifier": "7", "timeline": 1, "lsn": "0/1", "types": '{"16500": [1700, -1]}'},
        {"slot": "s", "system_identifier": "7", "timeline": 1, "lsn": "0/1", "types": '{"16500": ["numeric", -1, 0]}'},
    ],
)
def test_an_invalid_offset_is_refused(offset: dict[str, Any]):
    with pytest.raises(DataError):
        SourceState.of(offset)


HISTORY = "1\t0/3000000\tno recovery target specified\n\n2\t0/5000000\tno recovery target specified\n"


@pytest.mark.parametrize(
    ("timeline", "lsn", "shared"),
    [(1, 0x3000000, True), (1, 0x3000001, False), (2, 0x4000000, True), (2, 0x5000001, False), (4, 1, False)],
)
def test_a_timeline_has_an_earlier_ones_log_up_to_the_fork(timeline: int, lsn: int, shared: bool):
    state = replace(STATE, timeline=timeline).at(Position(lsn))
    slot, server = replace(SLOT, confirmed=1), Server("7000", 3, 0x6000000)
    if shared:
        check_state(state, slot, server, HISTORY)
    else:
        with pytest.raises(PositionLostError, match="is not part of the server's timeline 3"):
            check_state(state, slot, server, HISTORY)


def test_a_server_that_continues_the_offset_is_accepted():
    earlier = Slot("slot", "pgoutput", "shop", None, 5, None, None)
    assert refusal(check_state, STATE, SLOT, SERVER, None) is None
    assert refusal(check_state, STATE.at(Position(0x2000000)), earlier, SERVER, HISTORY) is None


def test_a_slot_past_the_offset_is_refused():
    with pytest.raises(PositionLostError, match="past the connector's offset 16/B374D847"):
        check_state(STATE.at(Position(0x16B374D847)), SLOT, SERVER, None)


def test_another_system_is_refused():
    with pytest.raises(PositionLostError, match="system"):
        check_state(STATE, SLOT, Server("7001", 1, 0), None)


def test_a_server_that_lost_changes_in_kafka_is_refused():
    with pytest.raises(PositionLostError, match="timeline"):
        check_state(STATE, SLOT, Server("7000", 3, 0), HISTORY)


def test_a_slot_that_cannot_be_read_is_refused():
    assert check_slot(SLOT, "slot", "shop") is SLOT
    for missing in (None, Slot("slot", "pgoutput", "shop", None, 5, "lost", None)):
        with pytest.raises(PositionLostError):
            check_slot(missing, "slot", "shop")
    with pytest.raises(PostgresError, match=r"slot\.name"):
        check_slot(SLOT, "slot", "other")


def test_a_publication_may_grow_but_not_lose_a_part():
    check_publication(STATE, "p", {"": "1.t", "public.t": "2.abc.7", "public.new": "3.x.8"})
    for altered in ({"": "1.t"}, {"": "1.t", "public.t": "4.abc.7"}, {"": "1.f", "public.t": "2.abc.7"}):
        with pytest.raises(PositionLostError, match="publication"):
            check_publication(STATE, "p", altered)


def test_settings_that_were_changed_and_set_back_are_noticed():
    state = replace(STATE, publication={"": "1.t.10.700"})
    check_publication(state, "p", {"": "1.t.10.700"})
    # A new owner also changes the row's xmin.
    check_publication(state, "p", {"": "1.t.11.701"})
    for altered in ("1.t.10.701", "1.f.11.701", "2.t.10.700"):
        with pytest.raises(PositionLostError, match="its settings"):
            check_publication(state, "p", {"": altered})
    # An old version's offset has neither owner nor xmin.
    check_publication(replace(STATE, publication={"": "1.t"}), "p", {"": "1.t.10.700"})


def test_a_published_schema_may_be_renamed_or_dropped():
    state = replace(STATE, publication={"": "1.t", "s.*": "2.7"})
    check_publication(state, "p", {"": "1.t", "renamed.*": "2.7"})
    check_publication(state, "p", {"": "1.t"}, dropped={"s.*"})
    for altered in ({"": "1.t"}, {"": "1.t", "s.*": "3.8"}, {"": "1.t", "s.*": "3.7"}):
        with pytest.raises(PositionLostError, match=r"s\.\*"):
            check_publication(state, "p", altered)
    # An old version's offset does not have the schema's oid.
    old = replace(STATE, publication={"": "1.t", "s.*": "2."})
    check_publication(old, "p", {"": "1.t", "s.*": "2.7"})
    for altered in ({"": "1.t"}, {"": "1.t", "s.*": "3.7"}):
        with pytest.raises(PositionLostError, match=r"s\.\*"):
            check_publication(old, "p", altered)


def test_a_published_table_may_be_renamed_or_dropped():
    check_publication(STATE, "p", {"": "1.t", "public.renamed": "2.abc.7"})
    check_publication(STATE, "p", {"": "1.t"}, dropped={"public.t"})
    # A new table has the name of the dropped one.
    with pytest.raises(PositionLostError, match=r"public\.t"):
        check_publication(STATE, "p", {"": "1.t", "public.t": "4.abc.9"}, dropped=set())
