from __future__ import annotations

from dataclasses import replace

import pytest

from fencepost.connectors.postgres.changes.commit_points import CommitPoints
from fencepost.connectors.postgres.changes.incremental import SnapshotProgress, TableRead
from fencepost.connectors.postgres.changes.position import Position, SourceState
from fencepost.connectors.postgres.types.types import TypeInfo

WHOLE = Position(100)
WITHIN = Position(100, 200, 3)
STATE = SourceState("slot", "system", 1, WHOLE, {"public.t": "1"})
READING = replace(STATE, incremental=SnapshotProgress((TableRead("public.t", "1"),)))


class _Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


def _points(clock: _Clock, split_after_s: float | None = None) -> CommitPoints:
    return CommitPoints(STATE, WHOLE, split_after_s, clock)


def _may_commit(
    points: CommitPoints,
    position: Position,
    state: SourceState = STATE,
    *,
    after_s: float = 0.0,
    heartbeat: bool = False,
) -> bool:
    return points.may_commit(state, position, after_s=after_s, heartbeat_due=heartbeat)


def test_whole_transactions_commit_once_they_were_collected(clock: _Clock) -> None:
    points = _points(clock)
    points.begin()
    assert not _may_commit(points, Position(200), after_s=0.5)
    clock.now += 0.5
    points.begin()
    assert _may_commit(points, Position(200), after_s=0.5)


def test_a_transaction_of_the_database_is_not_divided(clock: _Clock) -> None:
    points = _points(clock)
    points.begin()
    clock.now += 1_000
    assert not _may_commit(points, WITHIN, heartbeat=True)


def test_a_long_transaction_is_divided_after_the_configured_time(clock: _Clock) -> None:
    points = _points(clock, split_after_s=10)
    points.begin()
    clock.now += 9
    assert not _may_commit(points, WITHIN)
    clock.now += 1
    assert _may_commit(points, WITHIN)


def test_a_quiet_slot_commits_its_position_every_five_seconds(clock: _Clock) -> None:
    points = _points(clock)
    clock.now += 4
    assert not _may_commit(points, Position(200))
    clock.now += 1
    assert not _may_commit(points, WHOLE)
    assert _may_commit(points, Position(200))
    points.offer(STATE, Position(200))
    assert not _may_commit(points, Position(300))


def test_a_changed_publication_commits_with_the_next_position(clock: _Clock) -> None:
    altered = replace(STATE, publication={})
    assert not _may_commit(_points(clock), WHOLE, altered)
    assert _may_commit(_points(clock), Position(200), altered)


@pytest.mark.parametrize("news", [READING, replace(STATE, types={16384: TypeInfo(23)})])
def test_progress_and_types_commit_at_the_same_position(clock: _Clock, news: SourceState) -> None:
    points = _points(clock)
    assert points.has_changed_state(news)
    assert _may_commit(points, WHOLE, news)
    assert not _may_commit(points, WITHIN, news)
    points.offer(news, WHOLE)
    assert not points.has_changed_state(news)


def test_a_heartbeat_commits_without_changes(clock: _Clock) -> None:
    assert _may_commit(_points(clock), WHOLE, heartbeat=True)
    assert not _may_commit(_points(clock), WITHIN, heartbeat=True)


def test_an_offset_ends_the_transaction_of_kafka(clock: _Clock) -> None:
    points = _points(clock)
    points.begin()
    assert points.open
    points.offer(STATE, Position(200))
    assert not points.open
    assert points.offered == Position(200)
