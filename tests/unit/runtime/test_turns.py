from __future__ import annotations

import threading

from fencepost.runtime.turns import Turn, Turns

FOR_EVER_S = 3600.0


def ask(turns: Turns, count: int) -> list[Turn]:
    return [turns.ask(lambda: None) for _ in range(count)]


def given(asked: list[Turn]) -> list[bool]:
    return [turn.given for turn in asked]


def test_no_more_turns_are_held_than_may_be_at_once():
    turns = Turns(2, FOR_EVER_S)
    asked = ask(turns, 5)
    assert given(asked) == [True, True, False, False, False]
    asked[1].end()
    assert given(asked) == [True, True, True, False, False]


def test_slow_turns_are_waited_for_as_long_as_some_end():
    turns = Turns(2, 60.0)
    slow, *asked = ask(turns, 100)
    for turn in asked[:-1]:
        assert turn.given
        turn.end()
        assert sum(given(asked)) == asked.index(turn) + 2
    assert slow.given


def test_turns_that_hang_let_others_continue():
    turns, last = Turns(2, 0.01), threading.Event()
    ask(turns, 6)
    turns.ask(last.set)
    assert last.wait(60)


def test_the_more_turns_hang_the_longer_it_takes_until_more_are_given():
    turns, last = Turns(2, 0.01), threading.Event()
    assert turns.patience_s == 0.01
    hanging = ask(turns, 6)
    turns.ask(last.set)
    assert last.wait(60)
    assert turns.patience_s == 0.04
    for turn in hanging:
        turn.end()
    assert turns.patience_s == 0.01


def test_hanging_turns_are_only_searched_while_others_wait():
    turns, last = Turns(1, 0.01), threading.Event()
    before = set(threading.enumerate())
    ask(turns, 2)
    turns.ask(last.set)
    assert last.wait(60)
    for thread in (started for started in set(threading.enumerate()) - before if started.name == "turns"):
        thread.join(60)
        assert not thread.is_alive()


def test_a_cancelled_waiter_is_skipped():
    turns = Turns(1, FOR_EVER_S)
    first, second, third = ask(turns, 3)
    second.end()
    first.end()
    first.end()
    assert not second.given
    assert third.given


def test_a_turn_is_announced_when_it_is_given():
    turns, told = Turns(1, FOR_EVER_S), []
    first = turns.ask(lambda: told.append("first"))
    turns.ask(lambda: told.append("second"))
    assert told == ["first"]
    first.end()
    assert told == ["first", "second"]
