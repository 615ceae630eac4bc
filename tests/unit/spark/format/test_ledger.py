"""The task attempts that a ledger lets write, and when the driver may commit."""

from __future__ import annotations

import random

import pytest

from fencepost.api.errors import DataError
from fencepost.engine.errors import WriteRetriedError
from fencepost.kafka.errors import TransactionAbortableError
from fencepost.spark.format.ledger import Claim, Closed, Done, Entry, Failed, Ledger, Opened, decoded, encoded


def claim(task: int, attempt: int, *partitions: int, one: bool = False) -> Claim:
    return Claim(task, attempt, "t", partitions, one)


def ledger(*entries: Entry) -> Ledger:
    """An open ledger with these entries."""
    found = Ledger()
    for entry in (Opened(), *entries):
        found.apply(entry)
    return found


@pytest.mark.parametrize(
    "entry",
    [Opened(), Closed(), claim(1, 7, 0, 2, one=True), Done(1, 7, (("t", 0, 5),)), Failed(1, 7, "größer")],
    ids=lambda entry: type(entry).__name__,
)
def test_an_entry_is_read_as_it_was_written(entry: Entry):
    assert decoded(encoded(entry)) == entry


def test_a_task_gets_a_free_partition_in_the_order_it_asks_for():
    first, second = claim(0, 7, 1, 2, 0, one=True), claim(1, 8, 1, 2, 0, one=True)
    found = ledger(first, second)
    assert (found.granted(first), found.granted(second)) == ((1,), (2,))


def test_a_second_attempt_is_refused_with_the_failure_of_the_first():
    found = ledger(claim(0, 7, 0), Failed(0, 7, "too large"), claim(0, 9, 0))
    with pytest.raises(WriteRetriedError, match="it had failed: too large"):
        found.granted(claim(0, 9, 0))
    with pytest.raises(WriteRetriedError, match="ran task 0 of a write again"):
        ledger(claim(0, 7, 0), Done(0, 7, ()), claim(0, 9, 1)).granted(claim(0, 9, 1))


def test_an_attempt_that_was_granted_nothing_may_be_repeated():
    found = ledger(claim(0, 7, 0), claim(1, 8, 0), claim(1, 9, 1))
    assert found.granted(claim(1, 9, 1)) == (1,)


def test_a_partition_continues_after_the_records_of_a_finished_task():
    wanted = claim(1, 8, 0)
    found = ledger(claim(0, 7, 0), wanted)
    assert (found.granted(wanted), found.could_grant(wanted)) == ((), False)
    found.apply(Done(0, 7, (("t", 0, 42),)))
    assert found.could_grant(wanted)
    found.apply(wanted)
    assert found.granted(wanted) == (0,)
    assert found.sequences == {("t", 0): 42}


def test_all_partitions_that_a_task_needs_are_granted_at_once():
    found = ledger(claim(0, 7, 1), claim(1, 8, 0, 1))
    assert found.granted(claim(1, 8, 0, 1)) == ()
    assert found.owners == {("t", 1): 0}


def test_a_task_that_has_a_partition_does_not_wait_for_another():
    found = ledger(claim(0, 7, 0), claim(1, 8, 1), claim(0, 7, 1))
    with pytest.raises(DataError, match="that another task writes"):
        found.granted(claim(0, 7, 1))


def test_nothing_is_granted_behind_the_close_and_without_the_first_entry():
    wanted = claim(0, 7, 0)
    with pytest.raises(TransactionAbortableError, match="closed"):
        ledger(Closed(), wanted).granted(wanted)
    lost = Ledger()
    lost.apply(wanted)
    with pytest.raises(TransactionAbortableError, match="lost"):
        lost.granted(wanted)


def test_late_copies_of_entries_change_nothing():
    """An append without an answer is retried, and its first attempt may arrive after other appends."""
    entries = [claim(0, 7, 0), Done(0, 7, (("t", 0, 5),)), claim(1, 8, 0), Done(1, 8, (("t", 0, 9),))]
    expected = ledger(*entries, Closed())
    for seed in range(200):
        chosen = random.Random(seed)
        late = list(entries)
        for entry in chosen.sample(entries, 2):
            late.insert(chosen.randint(late.index(entry) + 1, len(late)), entry)
        assert ledger(*late, Closed()) == expected, late


@pytest.mark.parametrize(
    "attempts", [{}, {0: 7}, {0: 7, 1: 9}], ids=["no result", "a result is missing", "a result of another attempt"]
)
def test_a_commit_needs_the_results_of_all_that_may_have_written(attempts: dict[int, int]):
    found = ledger(claim(0, 7, 0), claim(1, 8, 1), Closed())
    found.check({0: 7, 1: 8})
    with pytest.raises(WriteRetriedError):
        found.check(attempts)


def test_a_commit_needs_a_ledger_that_is_closed_and_knows_its_results():
    with pytest.raises(TransactionAbortableError, match="lost"):
        ledger(claim(0, 7, 0)).check({0: 7})
    with pytest.raises(TransactionAbortableError, match="lost"):
        ledger(Closed()).check({0: 7})
