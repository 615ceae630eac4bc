"""Commits that show that two tasks write one source partition, and commits that do not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
from fencepost.storage.offsets.codec import CommitAuthor, OffsetMark
from fencepost.storage.offsets.shared_partitions import SharedPartition, SharedPartitions, Span, with_commit
from fencepost.storage.offsets.table import OffsetTable
from fencepost.storage.offsets.uncommitted import OffsetRecords

_FIRST, _SECOND = CommitAuthor("group-c-0", "1.0.1"), CommitAuthor("group-c-1", "2.0.1")


def _found(*commits: tuple[CommitAuthor, int]) -> SharedPartition | None:
    shared = SharedPartitions()
    for author, time in commits:
        shared.commit("c", "{}", author, time)
    return shared.found("c")[1]


def test_a_commit_between_two_of_another_task_shows_a_shared_partition():
    found = _found((_FIRST, 1), (_SECOND, 2), (_FIRST, 3))
    assert found is not None
    assert sorted(found.tasks) == ["group-c-0", "group-c-1"]


def test_commits_are_compared_by_time_in_any_reading_order():
    """Two JSON forms of one source partition may be in different partitions of the topic."""
    assert _found((_FIRST, 1), (_FIRST, 3), (_SECOND, 2)) is not None
    assert _found((_SECOND, 2), (_FIRST, 3), (_FIRST, 1)) is not None
    assert _found((_SECOND, 4), (_FIRST, 3), (_FIRST, 1)) is None


def test_a_source_partition_may_move_there_and_back():
    back = CommitAuthor(_FIRST.task, "1.2.1")
    assert _found((_FIRST, 1), (_FIRST, 2), (_SECOND, 3), (_SECOND, 4), (back, 5), (back, 6)) is None


def test_runs_of_one_task_are_not_compared():
    again = CommitAuthor(_FIRST.task, "1.2.1")
    assert _found((_FIRST, 1), (again, 2), (_FIRST, 3)) is None


def test_source_partitions_of_two_connectors_are_not_compared():
    shared = SharedPartitions()
    for connector, author, time in (("a", _FIRST, 1), ("b", _SECOND, 2), ("a", _FIRST, 3)):
        shared.commit(connector, "{}", author, time)
    assert shared.found("a") == shared.found("b") == (0, None)


def test_the_state_of_a_source_partition_does_not_grow():
    spans: tuple[Span, ...] = ()
    for time in range(100):
        spans, other = with_commit(spans, CommitAuthor(f"group-c-{time}", "1"), time)
        assert other is None
        assert len(spans) <= 2


@given(st.data())
def test_successive_tasks_do_not_count_as_sharing_with_any_clocks(data: st.DataObject):
    """Each run reads the offsets, with the times of all earlier commits, like the successor of a fenced task."""
    shared, known = SharedPartitions(), 0
    for run in range(data.draw(st.integers(1, 8))):
        author = CommitAuthor(f"group-c-{data.draw(st.integers(0, 2))}", str(run))
        clock, time = data.draw(st.integers(0, 50)), known
        for _ in range(data.draw(st.integers(0, 4))):
            clock += data.draw(st.integers(-5, 10))
            time = max(clock, time + 1)
            shared.commit("c", "{}", author, time)
        known = time
    assert shared.found("c") == (0, None)


def _written(table: OffsetTable, author: CommitAuthor | None, partition: dict[str, str] | None, n: int | None) -> None:
    """Commit an offset as a task, and let the table read it."""
    offsets = OffsetRecords("c", table, author=lambda: author)
    offsets.put(partition, None if n is None else {"n": n})
    for target, records in offsets.by_partition(5):
        headers = [] if records.headers is None else records.headers.to_pylist()[0]
        pairs = tuple((header["key"], header["value"]) for header in headers)
        (key,), (value,) = records.key.to_pylist(), records.value.to_pylist()
        table.apply(ConsumedRecord("offsets", target, 0, 0, key, value, pairs))


def _commits_in_turn(partition: dict[str, str] | None, n: int | None) -> SharedPartition | None:
    table = OffsetTable()
    for author in (_FIRST, _SECOND, _FIRST):
        _written(table, author, partition, n)
    return table.shared_partitions("c")[1]


def test_offset_records_of_two_tasks_show_a_shared_partition():
    found = _commits_in_turn({"file": "a"}, 1)
    assert found == SharedPartition("c", '{"file": "a"}', ("group-c-1", "group-c-0"))


def test_tasks_may_share_empty_partitions_and_tombstones():
    assert _commits_in_turn(None, 1) is None
    assert _commits_in_turn({}, 1) is None
    assert _commits_in_turn({"file": "a"}, None) is None


def test_commits_without_an_author_end_nothing():
    """Commits of Connect's and older workers, of requests, and copies have no author."""
    table = OffsetTable()
    for author in (_FIRST, None, _SECOND, None):
        _written(table, author, {"file": "a"}, 1)
    assert table.shared_partitions("c") == (0, None)
    _written(table, _FIRST, {"file": "a"}, 1)
    assert table.shared_partitions("c")[0] == 1


def test_only_a_valid_commit_author_is_decoded():
    for author in (_FIRST, CommitAuthor("a group of mine-c-0", "7")):
        assert CommitAuthor.parse(str(author)) == author
    assert CommitAuthor.parse("nonsense") is None
    assert OffsetMark(5, author=_FIRST).headers()[1] == ("fencepost.committed.by", b"1.0.1 group-c-0")
