"""The order and times in which tables are polled."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from fencepost.connectors.jdbc.rounds import Rounds

NEVER = threading.Event()


@dataclass
class Table:
    """A table with rows; `whole` says that its answers are always complete, and need no second poll."""

    name: str
    rows: deque[str] = field(default_factory=deque)
    whole: bool = False

    def ask(self) -> str | None:
        return self.rows.popleft() if self.rows else None


def tables(**rows: str) -> list[Table]:
    return [Table(name, deque(text)) for name, text in rows.items()]


def test_a_table_with_much_does_not_keep_the_others_waiting() -> None:
    all_ = tables(a="1234", b="5", c="")
    rounds: Rounds[Table] = Rounds(1000)
    asked: list[str] = []

    def ask(table: Table) -> str | None:
        asked.append(table.name)
        return table.ask()

    found = [rounds.first_result(lambda: all_, ask, NEVER) for _ in range(5)]

    assert found == ["1", "5", "2", "3", "4"]
    assert asked == [*"ab", *"ca", *"bca", *"bca"]


def test_after_a_round_without_rows_it_rests() -> None:
    rounds: Rounds[Table] = Rounds(1000)
    stopping = threading.Event()
    asked: list[str] = []

    def ask(table: Table) -> None:
        asked.append(table.name)
        if table.name == "c":
            stopping.set()

    assert not rounds.exhausted
    assert rounds.first_result(lambda: tables(a="", b="", c=""), ask, stopping) is None

    assert asked == ["a", "b", "c"]
    assert rounds.exhausted


def test_nothing_is_asked_after_a_stop() -> None:
    stopping = threading.Event()
    stopping.set()

    def refuse(table: Table) -> None:
        raise AssertionError(table)

    assert Rounds[Table](0).first_result(lambda: tables(a=""), refuse, stopping) is None


def test_tables_that_never_rest_are_exhausted_once_each_was_read_to_its_end() -> None:
    growing = [Table("a", deque("1234"), whole=True), Table("b", deque("56789"))]
    rounds: Rounds[Table] = Rounds(1000)

    def poll() -> str | None:
        return rounds.first_result(lambda: growing, Table.ask, NEVER)

    assert [poll() for _ in range(4)] == ["1", "5", "2", "6"]
    assert not rounds.exhausted
    growing[1].whole = True
    assert [poll() for _ in range(2)] == ["3", "7"]
    assert poll() is None
    assert rounds.exhausted
    # The next round begins.
    assert [poll() for _ in range(4)] == ["4", "8", "9", None]
