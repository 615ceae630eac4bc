from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost import IllegalStateError, SourceBatch, SourceRecord
from fencepost.config.connector_config import TransactionBoundary
from fencepost.runtime.task.boundaries import (
    BoundaryDecision,
    ConnectorBoundary,
    FlushInterval,
    IntervalBoundary,
    PollBoundary,
    SourceBoundary,
    TransactionBoundaryManager,
    boundary_manager,
)
from tests.unit.runtime.records import source_records


def _after_poll(
    manager: TransactionBoundaryManager, now: float = 0.0, *, returned: bool = True, transaction_open: bool = True
) -> BoundaryDecision:
    return manager.after_poll(now, returned=returned, transaction_open=transaction_open)


def test_the_poll_boundary_commits_each_batch_every_empty_poll_and_at_the_end():
    manager = PollBoundary()
    batch = source_records(2)
    assert list(manager.pieces(batch)) == [(batch, BoundaryDecision.COMMIT)]
    assert _after_poll(manager) is BoundaryDecision.CONTINUE, "the batch is committed already"
    assert _after_poll(manager, returned=False, transaction_open=False) is BoundaryDecision.COMMIT
    assert manager.at_end() is BoundaryDecision.COMMIT


@pytest.mark.parametrize("kind", [True, "INITIAL", "BLOCKING"])
@pytest.mark.parametrize(
    ("reading", "done"),
    [
        ({"last_snapshot_record": False}, {"last_snapshot_record": True}),
        ({"snapshot_completed": False}, {"snapshot_completed": True}),
        ({}, {"snapshot": None}),
    ],
    ids=["PostgreSQL", "SQL Server", "MariaDB"],
)
def test_the_snapshot_boundary_commits_when_a_snapshot_ends_and_after_later_polls(
    kind: object, reading: dict[str, object], done: dict[str, object]
):
    manager = boundary_manager(TransactionBoundary.SNAPSHOT, 1.0, 0.0)

    def poll(offset: dict[str, object], *, as_batch: bool) -> BoundaryDecision:
        batch = (
            SourceBatch(offsets=[({"server": "s"}, offset)], dataframe=_Frame())
            if as_batch
            else [SourceRecord({"server": "s"}, offset, "t")]
        )
        assert [decision for _, decision in manager.pieces(batch)] == [BoundaryDecision.CONTINUE]
        return _after_poll(manager)

    assert _after_poll(manager, returned=False) is BoundaryDecision.COMMIT
    for as_batch in (False, True):
        assert poll({"snapshot": kind, **reading}, as_batch=as_batch) is BoundaryDecision.CONTINUE
        assert _after_poll(manager, returned=False) is BoundaryDecision.CONTINUE
        assert manager.at_end() is BoundaryDecision.CONTINUE
        assert poll({"snapshot": kind, **done}, as_batch=as_batch) is BoundaryDecision.COMMIT
        assert manager.at_end() is BoundaryDecision.COMMIT
        assert poll({"lsn": 7}, as_batch=as_batch) is BoundaryDecision.COMMIT
        # Changes are read while an incremental snapshot goes on.
        assert poll({"snapshot": "INCREMENTAL", **reading}, as_batch=as_batch) is BoundaryDecision.COMMIT


class _Frame:
    mapInArrow = None  # noqa: N815 - a DataFrame has it


def test_the_interval_boundary_commits_the_first_batch_after_the_interval():
    manager = IntervalBoundary(10.0, 100.0)
    assert _after_poll(manager, 109.9) is BoundaryDecision.CONTINUE
    assert _after_poll(manager, 110.0) is BoundaryDecision.COMMIT
    assert _after_poll(manager, 119.9) is BoundaryDecision.CONTINUE
    assert manager.at_end() is BoundaryDecision.COMMIT


def test_twice_the_interval_late_is_one_commit():
    manager = IntervalBoundary(10.0, 100.0)
    assert _after_poll(manager, 125.0) is BoundaryDecision.COMMIT
    assert _after_poll(manager, 134.9) is BoundaryDecision.CONTINUE
    assert _after_poll(manager, 135.0) is BoundaryDecision.COMMIT


def test_an_interval_of_0_commits_every_batch():
    manager = IntervalBoundary(0.0, 100.0)
    assert [_after_poll(manager, 100.0) for _ in range(3)] == [BoundaryDecision.COMMIT] * 3


def test_offsets_are_flushed_at_their_interval_whether_or_not_there_are_any():
    manager = FlushInterval(10.0, 100.0)
    assert _after_poll(manager, 109.9) is BoundaryDecision.CONTINUE
    assert _after_poll(manager, 110.0, returned=False, transaction_open=False) is BoundaryDecision.COMMIT
    assert _after_poll(manager, 119.9) is BoundaryDecision.CONTINUE
    assert manager.at_end() is BoundaryDecision.COMMIT
    assert manager.context is None, "T16"


def test_a_source_that_went_quiet_does_not_leave_its_transaction_open():
    manager = IntervalBoundary(10.0, 100.0)
    assert _after_poll(manager, 105.0, returned=False) is BoundaryDecision.CONTINUE
    assert _after_poll(manager, 111.0, returned=False) is BoundaryDecision.COMMIT


def test_an_idle_task_with_nothing_open_commits_nothing():
    manager = IntervalBoundary(10.0, 100.0)
    assert _after_poll(manager, 111.0, returned=False, transaction_open=False) is BoundaryDecision.CONTINUE


@given(st.lists(st.floats(0, 50, allow_nan=False), min_size=1, max_size=50), st.floats(0.1, 30))
def test_commits_keep_the_interval_and_come_by_the_next_batch(steps: list[float], interval: float):
    manager = IntervalBoundary(interval, 0.0)
    now, last = 0.0, 0.0
    for step in steps:
        now += step
        decision = _after_poll(manager, now)
        assert (decision is BoundaryDecision.COMMIT) == (now >= last + interval)
        last = now if decision is BoundaryDecision.COMMIT else last


@pytest.mark.parametrize("manager", [IntervalBoundary(1.0, 0.0), ConnectorBoundary()])
def test_a_batch_without_requests_is_one_piece(manager: TransactionBoundaryManager):
    batch = source_records(3)
    pieces = list(manager.pieces(batch))
    assert [(list(piece), decision) for piece, decision in pieces if not isinstance(piece, SourceBatch)] == [
        (batch, BoundaryDecision.CONTINUE)
    ]


def test_the_connector_boundary_commits_only_when_asked():
    manager = ConnectorBoundary()
    assert _after_poll(manager) is BoundaryDecision.CONTINUE
    assert manager.at_end() is BoundaryDecision.CONTINUE
    manager.context.commit_transaction()
    assert _after_poll(manager) is BoundaryDecision.COMMIT
    assert _after_poll(manager) is BoundaryDecision.CONTINUE


def test_at_the_end_a_pending_request_for_the_batch_counts():
    manager = ConnectorBoundary()
    manager.context.commit_transaction()
    assert manager.at_end() is BoundaryDecision.COMMIT
    manager.context.abort_transaction()
    assert manager.at_end() is BoundaryDecision.ABORT


def test_a_request_for_a_record_takes_effect_right_after_it():
    manager = ConnectorBoundary()
    batch = source_records(6)
    manager.context.commit_transaction(batch[1])
    manager.context.abort_transaction(batch[3])
    assert list(manager.pieces(batch)) == [
        (batch[:2], BoundaryDecision.COMMIT),
        (batch[2:4], BoundaryDecision.ABORT),
        (batch[4:], BoundaryDecision.CONTINUE),
    ]


def test_a_request_that_comes_while_earlier_records_are_written_counts():
    manager = ConnectorBoundary()
    batch = source_records(4)
    manager.context.commit_transaction(batch[0])
    found = []
    for piece, decision in manager.pieces(batch):
        found.append((piece, decision))
        if len(found) == 1:
            manager.context.commit_transaction(batch[2])
    assert found == [
        (batch[:1], BoundaryDecision.COMMIT),
        (batch[1:3], BoundaryDecision.COMMIT),
        (batch[3:], BoundaryDecision.CONTINUE),
    ]


@pytest.mark.parametrize(("record", "batch"), [("commit", "abort"), ("abort", "commit")])
def test_the_last_records_request_comes_before_the_batchs(record: str, batch: str):
    manager = ConnectorBoundary()
    records = source_records(2)
    getattr(manager.context, f"{record}_transaction")(records[-1])
    getattr(manager.context, f"{batch}_transaction")()
    assert [decision for _, decision in manager.pieces(records)] == [BoundaryDecision(record)]
    assert _after_poll(manager) is BoundaryDecision(batch)


def test_columns_are_cut_at_the_boundaries_within_them():
    columns = pa.RecordBatch.from_pydict({"value": [b"a", b"b", b"c", b"d"]})
    ends = [(rows, [({"p": 1}, {"row": rows})]) for rows in (1, 3)]
    batch = SourceBatch.of_columns(columns, [({"p": 1}, {"row": 4})], boundaries=ends)

    pieces = [
        (piece.columns["value"].to_pylist(), piece.offsets[0][1]["row"], decision)
        for piece, decision in ConnectorBoundary().pieces(batch)
    ]
    assert pieces == [
        ([b"a"], 1, BoundaryDecision.COMMIT),
        ([b"b", b"c"], 3, BoundaryDecision.COMMIT),
        ([b"d"], 4, BoundaryDecision.CONTINUE),
    ]
    assert list(PollBoundary().pieces(batch)) == [(batch, BoundaryDecision.COMMIT)]


def test_both_requests_for_a_record_fail_when_it_is_written():
    manager = ConnectorBoundary()
    records = source_records(2)
    manager.context.commit_transaction(records[1])
    manager.context.abort_transaction(records[1])
    with pytest.raises(IllegalStateError, match="same record"):
        list(manager.pieces(records))


def test_both_requests_for_a_batch_fail_after_it():
    manager = ConnectorBoundary()
    manager.context.commit_transaction()
    manager.context.abort_transaction()
    with pytest.raises(IllegalStateError, match="same batch"):
        _after_poll(manager)


@pytest.mark.parametrize("boundary", TransactionBoundary)
def test_only_boundaries_that_the_task_asks_for_have_a_context(boundary: TransactionBoundary):
    manager = boundary_manager(boundary, 60.0, 0.0)
    asked_for = (TransactionBoundary.CONNECTOR, TransactionBoundary.SOURCE)
    assert (manager.context is not None) == (boundary in asked_for)


def test_offsets_wait_while_a_transaction_of_the_source_goes_on():
    manager = SourceBoundary()
    assert not manager.holds_offsets
    assert _after_poll(manager) is BoundaryDecision.CONTINUE
    assert manager.holds_offsets
    assert _after_poll(manager, returned=False) is BoundaryDecision.CONTINUE
    assert manager.holds_offsets
    assert manager.at_end() is BoundaryDecision.CONTINUE
    manager.context.commit_transaction()
    assert _after_poll(manager) is BoundaryDecision.COMMIT
    assert not manager.holds_offsets
    assert _after_poll(manager, returned=False) is BoundaryDecision.CONTINUE
    assert not manager.holds_offsets


@given(st.data())
def test_a_batch_is_split_where_a_boundary_was_requested(data: st.DataObject):
    records = source_records(data.draw(st.integers(1, 30)))
    asked = data.draw(st.dictionaries(st.sampled_from(range(len(records))), st.sampled_from(["commit", "abort"])))
    manager = ConnectorBoundary()
    for index, request in asked.items():
        getattr(manager.context, f"{request}_transaction")(records[index])
    joined: list[SourceRecord] = []
    decisions = {}
    for piece, decision in manager.pieces(records):
        assert not isinstance(piece, SourceBatch)
        joined += piece
        if decision is not BoundaryDecision.CONTINUE:
            decisions[len(joined) - 1] = decision.value
    assert joined == records
    assert decisions == asked
    assert not manager.context.has_record_requests()
