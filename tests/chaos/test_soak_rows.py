"""The soak's check of rows finds lost, doubled, torn and uncommitted rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.soak.rows import Promise, Row, Seen, row_faults


def row(number: int, version: int = 1, batch: int = 7, **more: Any) -> Row:
    return {"id": number, "version": version, "batch": batch, **more}


def faults(seen: list[Seen], table: list[Row], promise: Promise = Promise.EACH, *, snapshots: int = 1) -> list[str]:
    return [fault.split(",")[0] for fault in row_faults("t", seen, table, promise, snapshots=snapshots)]


def test_a_correct_history_of_a_table_has_no_faults() -> None:
    seen = [
        Seen("a", row(1), snapshot=True),
        Seen("b", row(1, version=2, batch=8)),
        Seen("b", row(2, batch=8)),
        Seen("c", row(1, version=4, batch=10), snapshot=True),
        Seen("d", row(1, version=5, batch=11, extra=1)),
    ]
    table = [row(1, version=5, batch=11, extra=1), row(2, batch=8, extra=None)]

    assert faults(seen, table, snapshots=2) == []
    assert faults(seen, table) == ["t: 1 snapshots in too many transactions"]


@pytest.mark.parametrize(
    ("seen", "table", "fault"),
    [
        ([], [row(1)], "1 lost"),
        ([Seen("a", row(1)), Seen("b", row(1, batch=8))], [row(1, batch=8)], "1 doubled or out of order"),
        ([Seen("a", row(1, version=2))], [row(1, version=2)], "1 with versions missing before"),
        ([Seen("a", row(1))], [], "1 never committed"),
        ([Seen("a", row(1))], [row(1, version=2, batch=8)], "1 not as in the table in the end"),
        ([Seen("a", row(1)), Seen("b", row(2))], [row(1), row(2)], "1 torn apart"),
    ],
)
def test_each_fault_of_a_history_is_named(seen: list[Seen], table: list[Row], fault: str) -> None:
    assert faults(seen, table) == [f"t: {fault}"]


def test_a_source_of_latest_versions_may_skip_but_not_go_back() -> None:
    table = [row(1, version=3)]

    assert faults([Seen("a", row(1, version=3))], table, Promise.LATEST) == []
    again = [Seen("a", row(1, version=3)), Seen("a", row(1, version=2)), Seen("a", row(1, version=3))]
    assert faults(again, table, Promise.LATEST) == ["t: 1 doubled or out of order"]
