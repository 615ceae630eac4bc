from __future__ import annotations

from fencepost.runtime.turns import Turn, Turns

FOR_EVER_S = 3600.0


def ask(turns: Turns, count: int) -> list[Turn]:
    return [turns.ask(lambda: None) for _ in range(count)]


def given(asked: list[Turn]) -> list[bool]:
    return [turn.given for turn in asked]


def test_slow_turns_are_waited_for_however_long_they_take():
    turns = Turns(2, FOR_EVER_S)
    asked = ask(turns, 5)
    for _ in range(10):
        turns.look()
        assert given(asked) == [True, True, False, False, False]
    asked[1].end()
    assert given(asked) == [True, True, True, False, False]


def test_turns_that_hang_let_as_many_others_go_on_and_do_not_count_again():
    turns = Turns(2, 0.0)
    asked = ask(turns, 5)
    turns.look()
    assert given(asked) == [True, True, True, True, False]
    asked[0].end()
    assert given(asked) == [True, True, True, True, False]
    asked[2].end()
    assert given(asked) == [True] * 5


def test_who_waits_no_longer_is_passed_over():
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
