"""Rows inserted into the signal table are signals; signals with invalid content are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencepost.api.errors import DataError
from fencepost.connectors.postgres.changes.position import Position
from fencepost.connectors.postgres.changes.snapshot.signals import (
    Signal,
    execute_request,
    log_message,
    signals_in,
    stop_request,
)
from fencepost.connectors.postgres.changes.stream.decoder import Decoder
from fencepost.connectors.postgres.changes.stream.relation import Column, Relation, ReplicaIdentity
from fencepost.connectors.postgres.changes.stream.replication_frames import find_frames
from tests.unit.connectors.postgres.changes.messages import (
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

SIGNALS = Relation(
    1003, "public", "signals", ReplicaIdentity.DEFAULT,
    tuple(Column(name, 25, -1, identity=name == "key") for name in ("key", "kind", "content", "more")),
)  # fmt: skip


def signal(data: Any, kind: str = "execute-snapshot") -> Signal:
    return Signal("s-1", kind, data if isinstance(data, str) else json.dumps(data))


def test_signals_are_the_inserted_rows_of_their_table_in_order():
    data = buffer(
        begin(100), relation(SIGNALS), relation(HISTORY), insert(HISTORY, ["1"]),
        insert(SIGNALS, ["a", "log", "{}", "x"]), update(SIGNALS, ["a", "stop-snapshot", "{}", None]),
        delete(SIGNALS, ["a", None, None, None]), truncate(SIGNALS), insert(SIGNALS, ["b", "other", None, None]),
        commit(100, 110),
    )  # fmt: skip
    changes = Decoder(Position(1)).decode(data, find_frames(data, len(data) - 64)[0]).changes

    assert list(signals_in(changes, "public.signals")) == [Signal("a", "log", "{}"), Signal("b", "other")]
    # A table with fewer columns has no signals.
    assert list(signals_in(changes, "public.history")) == []


def test_a_request_names_tables_and_the_rows_of_some():
    conditions = [{"data-collection": r"public\.orders", "filter": "color = 'blue'"}]
    request = execute_request(
        signal({"data-collections": [r"public\.o.*", "sales.x"], "additional-conditions": conditions})
    )
    assert [name for name in ("public.orders", "public.Others", "xpublic.orders", "sales.x") if request.names(name)] == [
        "public.orders", "public.Others", "sales.x",
    ]  # fmt: skip
    assert request.condition("public.orders") == "color = 'blue'"
    assert request.condition("public.others") is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("nonsense", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ([1], "not a JSON object"),
        ({}, "no data-collections"),
        ({"data-collections": "public.orders"}, "no data-collections"),
        ({"data-collections": ["("]}, "not a regular expression"),
        ({"data-collections": ["(" * 10_000 + ")" * 10_000]}, "not a regular expression"),
        ({"data-collections": ["a{99999999999999999999}"]}, "not a regular expression"),
        ({"data-collections": [7]}, "needs a text"),
        ({"data-collections": ["\ud800"]}, "a character that PostgreSQL does not have"),
        (
            {"data-collections": ["a"], "additional-conditions": [{"data-collection": "a", "filter": "\0"}]},
            "a character",
        ),
        ({"data-collections": ["a"], "type": "BLOCKING"}, "only incremental"),
        ({"data-collections": ["a"], "surrogate-key": "x"}, "surrogate-key, which is not supported"),
        ({"data-collections": ["a"], "additional-condition": "x"}, "use additional-conditions"),
        ({"data-collections": ["a"], "additional-conditions": "x"}, "not a list of objects"),
        ({"data-collections": ["a"], "additional-conditions": [{"data-collection": "a"}]}, "needs a text"),
    ],
)
def test_a_request_with_other_content_is_refused(data: Any, said: str):
    with pytest.raises(DataError, match=rf"signal 's-1' .*{said}"):
        execute_request(signal(data))


def test_a_stop_means_the_tables_that_it_names_or_all():
    assert stop_request(Signal("s-1", "stop-snapshot")).names("public.orders")
    some = stop_request(signal({"data-collections": ["public.lines"]}, "stop-snapshot"))
    assert (some.names("public.orders"), some.names("public.lines")) == (False, True)


def test_a_log_has_the_offset_in_its_message():
    assert log_message(signal({"message": "at {}"}, "log"), {"lsn": "0/1"}) == 'at {"lsn": "0/1"}'
    with pytest.raises(DataError, match="needs a text"):
        log_message(signal({}, "log"), {})
