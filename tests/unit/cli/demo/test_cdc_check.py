"""The demo's replay of changes finds what must never happen."""

from __future__ import annotations

from typing import Any

from fencepost.cli.demo.bank import CHECKING, SAVINGS, TRANSFERS
from fencepost.cli.demo.cdc_check import Event, _Replay

TOTAL = 2_000


def row(table: str, number: int, balance: int, *, op: str = "u", xid: int | None = 1) -> Event:
    value: dict[str, Any] = {"op": op, "after": {"id": number, "balance": balance}, "source": {"txId": xid}}
    return table, {"id": number}, value


def opened() -> _Replay:
    replay = _Replay(TOTAL)
    replay.apply((5, 0), [row(CHECKING, 1, 1_000, op="r", xid=None), row(SAVINGS, 2, 1_000, op="r", xid=None)])
    return replay


def test_complete_transfers_are_accepted():
    replay = opened()
    replay.apply((5, 1), [row(CHECKING, 1, 900), row(SAVINGS, 2, 1_100), row(TRANSFERS, 1, 0, op="c")])
    assert (replay.misfits, replay.torn, replay.wrong_sums) == (0, set(), 0)
    assert replay.rows[CHECKING] == {1: {"id": 1, "balance": 900}}


def test_a_transfer_in_two_transactions_is_torn():
    replay = opened()
    replay.apply((5, 1), [row(CHECKING, 1, 900)])
    replay.apply((5, 2), [row(SAVINGS, 2, 1_100)])
    assert (replay.torn, replay.wrong_sums) == ({1}, 1)


def test_a_lost_and_a_doubled_row_do_not_fit():
    replay = opened()
    replay.apply((5, 1), [row(CHECKING, 7, 0), row(CHECKING, 1, 1_000, op="c")])
    assert replay.misfits == 2
