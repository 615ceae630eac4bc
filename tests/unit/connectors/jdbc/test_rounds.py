"""Which table is asked next, and when."""

from __future__ import annotations

import threading
from collections import deque

from fencepost.connectors.jdbc.rounds import Rounds

NEVER = threading.Event()


def test_a_table_with_much_does_not_keep_the_others_waiting() -> None:
    answers = {"a": deque("1234"), "b": deque("5"), "c": deque()}
    rounds: Rounds[str] = Rounds(1000)
    asked: list[str] = []

    def ask(table: str) -> str | None:
        asked.append(table)
        return answers[table].popleft() if answers[table] else None

    found = [rounds.first(lambda: "abc", ask, NEVER) for _ in range(5)]

    assert found == ["1", "5", "2", "3", "4"]
    assert asked == [*"ab", *"ca", *"bca", *"bca"]


def test_after_a_round_without_rows_it_rests() -> None:
    rounds: Rounds[str] = Rounds(1000)
    stopping = threading.Event()
    asked: list[str] = []

    def ask(table: str) -> None:
        asked.append(table)
        if table == "c":
            stopping.set()

    assert not rounds.exhausted
    assert rounds.first(lambda: "abc", ask, stopping) is None

    assert asked == ["a", "b", "c"]
    assert rounds.exhausted


def test_nothing_is_asked_after_a_stop() -> None:
    stopping = threading.Event()
    stopping.set()

    def refuse(table: str) -> None:
        raise AssertionError(table)

    assert Rounds[str](0).first(lambda: "abc", refuse, stopping) is None
