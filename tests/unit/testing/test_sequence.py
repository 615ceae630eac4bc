"""When the conformance suite considers two sequences of records equal."""

from __future__ import annotations

from fencepost.testing.conformance.sequence import Reading, Seen, SeenPoll, difference

SERVER = {"server": "s"}
PARTITION = '{"server": "s"}'


def batch(*values: str, topic: str = "t", position: int | None = None) -> SeenPoll:
    """A poll that returned a SourceBatch, with or without an offset."""
    offsets = () if position is None else ((SERVER, {"position": position}),)
    partition = None if position is None else PARTITION
    return SeenPoll(tuple(Seen(partition, (topic, "None", value, None, "[]")) for value in values), offsets, ())


def test_a_batch_without_offsets_belongs_to_the_batch_it_is_committed_with() -> None:
    whole = Reading((batch("a", "b"), batch("c", position=1), batch("d"), batch(position=2)), ended=True)
    in_parts = Reading((batch("a", position=0), batch("b"), batch("c", position=1), batch("d", position=2)), ended=True)

    assert difference(whole, 0, in_parts.records, ended=True) is None
    assert [record.partition for record in whole.records] == [PARTITION] * 4


def test_a_missing_record_of_a_batch_without_offsets_is_noticed() -> None:
    whole = Reading((batch("a", "b"), batch("c", position=1)), ended=True)
    less = Reading((batch("b"), batch("c", position=1)), ended=True)

    assert difference(whole, 0, less.records, ended=True) is not None


def test_the_order_of_records_matters_within_a_topic_only() -> None:
    apart = Reading((batch("1"), batch("2", topic="u", position=2), batch("3", position=3)), ended=True)
    together = Reading((batch("1", "3"), batch("2", topic="u", position=3)), ended=True)
    turned = Reading((batch("3", "1"), batch("2", topic="u", position=3)), ended=True)

    assert difference(apart, 0, together.records, ended=True) is None
    assert difference(apart, 0, turned.records, ended=True) is not None
