"""Each record goes to one partition that its writer owns, in the order of the rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.api.record import RecordMetadata
from fencepost.engine.conversion import Converted
from fencepost.engine.routing import (
    Ownership,
    PartitionCounts,
    PolledMetadata,
    Routed,
    Router,
    agreed,
    contiguous_run,
    resolve,
    writer_count,
    writer_of,
)
from fencepost.kafka.errors import TransactionAbortableError
from fencepost.kafka.producer.partition_queue import Ack
from fencepost.kafka.producer.partitioner import partition_for_keys
from fencepost.kafka.records.columns import Records

COUNTS = st.integers(1, 8)


def converted(
    rows: int, keys: list[bytes | None] | None = None, partitions: list[int | None] | None = None
) -> Converted:
    values = pa.array([str(row).encode() for row in range(rows)], pa.binary())
    return Converted(
        "t",
        Records(values, None if keys is None else pa.array(keys, pa.binary())),
        None if partitions is None else pa.array(partitions, pa.int32()),
    )


def router(count: int, ownership: Ownership = Ownership(), **more: int) -> Router:  # noqa: B008 - frozen
    return Router(lambda _: count, lambda *_: count, ownership, run_bytes=more.pop("run_bytes", 1_000_000), **more)


@given(COUNTS, COUNTS)
def test_writers_divide_all_partitions(writers: int, count: int):
    owned = [p for index in range(writers) for p in Ownership(index, writers).partitions(count)]
    assert sorted(owned) == list(range(count))


@given(st.integers(0, 50), st.integers(1, 20))
def test_runs_of_splits_in_order_are_all_splits_in_order(count: int, runs: int):
    assert [s for run in range(runs) for s in contiguous_run(count, run, runs)] == list(range(count))


@given(st.lists(st.tuples(st.none() | st.binary(max_size=3), st.none() | st.integers(0, 2)), min_size=1, max_size=40))
def test_every_record_is_routed_once_and_in_order(rows: list[tuple[bytes | None, int | None]]):
    keys, partitions = [key for key, _ in rows], [partition for _, partition in rows]
    batch = converted(len(rows), keys, partitions)
    hashed = partition_for_keys(pa.array([key or b"" for key in keys], pa.binary()), 3)
    seen: list[int] = []
    for routed in router(3).route(batch):
        numbers = [int(value) for value in routed.records.value.to_pylist()]
        assert numbers == sorted(numbers)
        assert routed.rows is None or routed.rows.tolist() == numbers
        for number in numbers:
            if partitions[number] is not None:
                assert routed.partition == partitions[number]
            elif keys[number] is not None:
                assert routed.partition == hashed[number]
        seen += numbers
    assert sorted(seen) == list(range(len(rows)))


def test_records_without_key_and_partition_go_to_owned_partitions_in_runs():
    batch = converted(10)
    size = batch.records.value.nbytes
    writer = router(6, Ownership(1, 2), run_bytes=2 * size)
    partitions = [routed.partition for _ in range(7) for routed in writer.route(batch)]
    assert partitions == [1, 1, 3, 3, 5, 5, 1]


@given(st.integers(1, 6), st.lists(COUNTS, min_size=1, max_size=6))
def test_writers_never_share_a_partition_while_a_topic_grows(writers: int, added: list[int]):
    counts = [writers + total for total in np.cumsum(added).tolist()]
    seen: dict[int, set[int]] = {}
    for index in range(writers):
        coming = iter(counts)
        own = Router(lambda _, coming=coming: next(coming), lambda *_: 0, Ownership(index, writers), run_bytes=1)
        for _ in counts:
            for routed in own.route(converted(1)):
                seen.setdefault(routed.partition, set()).add(index)
    assert all(len(indices) == 1 for indices in seen.values())


def test_a_writer_whose_partitions_were_deleted_requires_another_transaction():
    with pytest.raises(TransactionAbortableError, match="has 1 partitions, fewer than when its 3 writers"):
        list(router(1, Ownership(2, 3)).route(converted(1)))


def test_the_first_run_starts_at_the_given_position():
    assert [next(iter(router(3, start=start).route(converted(1)))).partition for start in range(4)] == [0, 1, 2, 0]


def test_null_keys_of_a_batch_stay_together():
    targets = router(8).targets(converted(4, [None, b"a", None, None]))
    assert len({int(targets[row]) for row in (0, 2, 3)}) == 1


def test_records_that_leave_their_partition_open_have_no_targets():
    assert resolve(converted(3), 4) is None
    assert resolve(converted(3, [None] * 3, [None] * 3), 4) is None


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_out_of_range_is_named(partition: int):
    with pytest.raises(DataError, match=f"partition {partition} of topic t, which has the partitions 0 to 2"):
        list(router(3).route(converted(2, partitions=[0, partition])))


def test_metadata_is_refreshed_if_a_record_names_an_unknown_partition():
    asked: list[tuple[str, int]] = []

    def ask_again(topic: str, partition: int) -> int:
        asked.append((topic, partition))
        return 5

    counts = PartitionCounts({"t": 2}, lambda _: 2, ask_again)
    own = Router(counts, counts.beyond, Ownership(), run_bytes=1)
    found = [routed.partition for routed in own.route(converted(3, partitions=[1, 4, None]))]
    assert {1, 4} <= set(found)
    assert (counts("t"), counts.requested_counts, asked) == (5, {"t": 5}, [("t", 4)])
    assert [routed.partition for routed in own.route(converted(1, partitions=[3]))] == [3]
    with pytest.raises(DataError, match="partition 5 of topic t, which has the partitions 0 to 4"):
        own.targets(converted(1, partitions=[5]))


@pytest.mark.parametrize("partition", [None, 4])
def test_keyed_records_are_sent_again_if_their_topic_grows_within_a_batch(partition: int | None):
    coming = iter([2, 2, 2, 5])
    own = Router(lambda _: next(coming), lambda *_: 5, Ownership(), run_bytes=1)
    keyed = converted(2, [b"a", b"b"])
    targets = own.targets(keyed).tolist()
    assert own.targets(keyed).tolist() == targets
    if partition is None:
        assert own.targets(converted(1)).tolist() == [0]
    with pytest.raises(TransactionAbortableError, match="among 2 partitions, others among 5"):
        own.targets(converted(2, [b"a", b"b"], None if partition is None else [None, partition]))


@given(st.integers(1, 8), st.integers(1, 30))
def test_a_topic_partition_has_one_writer(writers: int, partitions: int):
    numbers = np.arange(partitions, dtype=np.int32)
    owners = writer_of("orders", numbers, writers)
    assert owners.tolist() == writer_of("orders", numbers, writers).tolist()
    assert set(owners.tolist()) <= set(range(writers))
    assert len(set(owners.tolist())) == min(writers, partitions)


@pytest.mark.parametrize(
    ("parallelism", "partitions", "splits", "writers"),
    [(8, 3, 5, 3), (2, 9, 9, 2), (4, 4, 1, 1), (4, 2, None, 2), (4, 4, 0, 1)],
)
def test_the_number_of_writers_follows_cores_partitions_and_splits(
    parallelism: int, partitions: int, splits: int | None, writers: int
):
    assert writer_count(parallelism=parallelism, partitions=partitions, splits=splits) == writers


def test_the_workers_partition_counts_win_and_others_are_requested_once():
    asked: list[str] = []

    def ask(topic: str) -> int:
        asked.append(topic)
        return 6

    counts = PartitionCounts({"orders": 4}, ask, lambda *_: 0)
    assert [counts(topic) for topic in ("orders", "new", "new", "orders")] == [4, 6, 6, 4]
    assert (asked, counts.requested_counts) == (["new"], {"new": 6})


def test_parts_of_a_batch_that_saw_a_topic_grow_are_sent_again():
    assert agreed([{"a": 4}, {}, {"a": 4, "b": 1}]) == {"a": 4, "b": 1}
    with pytest.raises(TransactionAbortableError, match=r"Topic a got more partitions.* among 4 .* among 6"):
        agreed([{"a": 4}, {"b": 1}, {"a": 6}])


def test_metadata_follow_the_acknowledgements_of_each_partition():
    metadata = PolledMetadata(6)
    records = Records(pa.array([b""] * 4), timestamp=pa.array([None, 77, None, None], pa.int64()))
    part = Converted("t", records, rows=pa.array([4, 0, 2, 1]))
    for partition, rows in ((1, np.array([0, 1])), (0, np.array([3])), (1, np.array([2]))):
        metadata.sent(part, Routed("t", partition, records.take(rows), rows))
    metadata.acknowledged(
        [
            Ack("t", 1, 0, 2, 40, 100, 9_000),
            Ack("t", 0, 0, 1, -1, 10, 9_002),
            Ack("t", 1, 2, 1, 50, 60, 9_001),
        ]
    )
    assert list(metadata) == [
        RecordMetadata("t", 1, 41, 77),
        RecordMetadata("t", 0, -1, 9_002),
        RecordMetadata("t", 1, 50, 9_001),
        None,
        RecordMetadata("t", 1, 40, 9_000),
        None,
    ]
    assert metadata[-2:] == [RecordMetadata("t", 1, 40, 9_000), None]
