"""The copies of offsets that still have to be written."""

from __future__ import annotations

from fencepost.storage.offsets.codec import Origin
from fencepost.storage.offsets.copies import Copy, PendingCopies
from fencepost.storage.offsets.overlay import CommittedOffset


def _copy(number: int | None, partition: str = "a", connector: str = "c") -> Copy:
    offset = CommittedOffset({"t": partition}, None if number is None else {"n": number}, number or 0)
    return Copy(connector, offset, Origin("own"))


def test_only_the_newest_offset_of_each_partition_waits():
    pending = PendingCopies()
    newest = [_copy(3), _copy(1, "b"), _copy(1, connector="d")]
    pending.put([_copy(1), _copy(2)])
    pending.put(newest)
    assert pending.take() == newest
    assert not pending.waiting


def test_a_failed_write_waits_again():
    pending = PendingCopies()
    failing = _copy(1)
    pending.put([failing, _copy(1, "b")])
    pending.take()
    pending.sent([failing])
    assert pending.take() == [failing]


def test_a_failed_write_does_not_replace_a_newer_one():
    pending = PendingCopies()
    older, newer = _copy(1), _copy(2)
    pending.put([older])
    pending.take()
    pending.put([newer])
    pending.sent([older])
    assert pending.take() == [newer]


def test_copies_are_left_until_they_are_written_or_replaced():
    pending = PendingCopies()
    first, second, other = _copy(1), _copy(2), _copy(1, "b")
    pending.put([first, other])
    assert pending.left([first]) == [first]
    pending.take()
    assert pending.left([first]) == [first], "it is on its way"
    pending.put([second])
    assert pending.left() == [second, other], "the older one does not count, although it is on its way"
    pending.sent([first])
    assert pending.left([first]) == [], "it was replaced"
    assert pending.left() == [second]
    pending.take()
    pending.sent()
    assert pending.left() == []


def test_a_copy_dropped_in_flight_does_not_wait_again_if_it_fails():
    pending = PendingCopies()
    removal, other = _copy(None), _copy(1, "b")
    pending.put([removal, other])
    pending.take()
    pending.withdraw([removal])
    pending.sent([removal, other])
    assert pending.left() == [other]


def test_dropped_copies_are_not_written_unless_newer_ones_are():
    pending = PendingCopies()
    removal, newer = _copy(None), _copy(2, "b")
    pending.put([removal, _copy(1, "b")])
    replaced = pending.left()
    pending.put([newer])
    pending.withdraw([removal, *replaced])
    assert pending.take() == [newer]


def test_an_older_copy_does_not_replace_one_that_waits():
    pending = PendingCopies()
    newer = _copy(2)
    pending.put([newer])
    pending.put([_copy(1)])
    assert pending.take() == [newer]
