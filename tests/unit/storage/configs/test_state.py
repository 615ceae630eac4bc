"""The state that follows from all records of the config topic, as in Connect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.configs.codec import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    LoggerLevelRecord,
    RestartRequest,
    SessionKey,
    TargetState,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
    decode,
    encode,
)
from fencepost.storage.configs.state import (
    ClusterConfigState,
    ConfigEvent,
    ConnectorConfigRemoval,
    ConnectorConfigUpdate,
    SessionKeyUpdate,
    TargetStateChange,
    TaskConfigUpdate,
    apply,
)

_CONFIG = {"name": "c"}
_KEY = SessionKey(b"k", "HmacSHA256", 1)


def _task(number: int, text: str = "") -> TaskRecord:
    return TaskRecord(ConnectorTaskId("c", number), {"n": f"{number}{text}"})


def _replayed(*records: ConfigRecord) -> tuple[ClusterConfigState, list[ConfigEvent | None]]:
    state, events = ClusterConfigState(), []
    for offset, record in enumerate(records):
        state, event = apply(state, offset, record)
        events.append(event)
    return state, events


_CREATED = ConnectorRecord("c", _CONFIG)
_DELETED = ConnectorRecord("c", None)
_STOPPED = TargetStateRecord("c", TargetState.STOPPED)


def test_task_configs_count_once_they_are_committed():
    """The commit is in a separate transaction, after the tasks' transaction."""
    before, events = _replayed(_CREATED, _task(0), _task(1))
    assert before.tasks("c") == []
    assert events == [ConnectorConfigUpdate("c"), None, None]
    after, event = apply(before, 5, CommitRecord("c", 2))
    assert after.task_configs("c") == [{"n": "0"}, {"n": "1"}]
    assert after.task_config(ConnectorTaskId("c", 1)) == {"n": "1"}
    assert after.task_config(ConnectorTaskId("c", 2)) is None
    assert event == TaskConfigUpdate("c", (ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)))


def test_a_commit_of_zero_tasks_removes_all_tasks():
    """The generation is unchanged, and fencing is pending."""
    state, events = _replayed(
        _CREATED, _task(0), CommitRecord("c", 1), TaskCountRecord("c", 1), CommitRecord("c", 0)
    )  # fmt: skip
    assert events[-1] == TaskConfigUpdate("c", ())
    assert state.tasks("c") == []
    assert state.task_config_generation("c") == 0
    assert state.pending_fencing("c")
    assert not state.entry("c").inconsistent


def test_a_commit_with_missing_tasks_leaves_the_connector_without_tasks():
    """Compaction removed the record of task 0, because a newer one follows."""
    state, events = _replayed(_CREATED, _task(1), CommitRecord("c", 2), _task(0))
    assert state.tasks("c") == []
    assert state.entry("c").inconsistent
    assert events[2] == TaskConfigUpdate("c", ())
    # The records of the incomplete commit are outdated: the next commit must bring all tasks.
    state, _ = apply(state, 5, CommitRecord("c", 2))
    assert state.entry("c").inconsistent
    for record in (_task(0), _task(1), CommitRecord("c", 2)):
        state, _ = apply(state, 6, record)
    assert not state.entry("c").inconsistent
    assert state.task_configs("c") == [{"n": "0"}, {"n": "1"}]


def test_leftover_task_records_of_a_shrink_have_no_effect():
    """There may be more task records than a commit counts."""
    state, _ = _replayed(_CREATED, _task(1, "old"), _task(0), CommitRecord("c", 1))
    assert state.task_configs("c") == [{"n": "0"}]
    assert not state.entry("c").inconsistent


def test_a_commit_of_an_unknown_connector_is_ignored():
    """The connector was deleted, and compaction removed both of its own records."""
    state, events = _replayed(_task(0), CommitRecord("c", 1), _CREATED)
    assert events[1] is None
    assert state.tasks("c") == []
    assert not state.pending_fencing("c")
    # Pending task records are dropped with it: a commit of the new connector must bring its own tasks.
    state, _ = apply(state, 5, CommitRecord("c", 1))
    assert state.entry("c").inconsistent


def test_a_task_count_ends_the_pending_fencing_of_a_commit():
    state, _ = _replayed(_CREATED)
    assert (state.pending_fencing("c"), state.task_count_record("c"), state.task_config_generation("c")) == (
        False, None, None,
    )  # fmt: skip
    state, _ = _replayed(_CREATED, _task(0), CommitRecord("c", 1))
    assert (state.pending_fencing("c"), state.task_count_record("c")) == (True, None)
    state, event = apply(state, 5, TaskCountRecord("c", 1))
    assert (state.pending_fencing("c"), state.task_count_record("c")) == (False, 1)
    assert event is None


@pytest.mark.parametrize("state", list(TargetState))
def test_a_change_of_the_target_state_is_reported(state: TargetState):
    known, events = _replayed(_CREATED, TargetStateRecord("c", state), TargetStateRecord("c", state))
    assert known.target_state("c") is state
    assert events[1:] == [None if state is TargetState.STARTED else TargetStateChange("c"), None]


def test_a_connector_without_target_state_is_started():
    """A tombstone of the target state means STARTED, and causes no event."""
    state, events = _replayed(_CREATED, TargetStateRecord("c", TargetState.PAUSED), TargetStateRecord("c", None))
    assert state.target_state("c") is TargetState.STARTED
    assert events[-1] is None
    assert ClusterConfigState().target_state("c") is None


@pytest.mark.parametrize(
    ("records", "half"),
    [
        ([_CREATED], True),
        ([_CREATED, _task(0), CommitRecord("c", 1)], False),
        ([_CREATED, _task(0), CommitRecord("c", 1), CommitRecord("c", 0)], True),
        ([_CREATED, _task(0), CommitRecord("c", 1), CommitRecord("c", 0), _STOPPED], False),
        ([_CREATED, _STOPPED, _task(0), CommitRecord("c", 1)], True),
        ([TargetStateRecord("c", TargetState.PAUSED), _CREATED], False),
        ([_CREATED, _task(0), CommitRecord("c", 1), _DELETED], False),
    ],
)
def test_a_connector_running_without_tasks_or_stopped_with_some_is_half_stopped(
    records: list[ConfigRecord], *, half: bool
):
    state, _ = _replayed(*records)
    assert state.entry("c").half_stopped is half


def test_a_target_state_may_precede_its_connector():
    state, _ = _replayed(TargetStateRecord("c", TargetState.STOPPED), _CREATED)
    assert state.target_state("c") is TargetState.STOPPED


def test_deleting_removes_all_but_the_task_count():
    """A new connector of that name gets a real fencing round."""
    state, events = _replayed(
        _CREATED, _task(0), _task(1), CommitRecord("c", 2), TaskCountRecord("c", 2), _task(0), CommitRecord("c", 1),
        _task(0), TargetStateRecord("c", TargetState.PAUSED), _DELETED,
    )  # fmt: skip
    assert events[-1] == ConnectorConfigRemoval("c")
    assert not state.contains("c")
    assert (state.connectors(), state.tasks("c"), state.pending_fencing("c")) == ([], [], False)
    assert state.target_state("c") is TargetState.PAUSED
    assert state.task_count_record("c") == 2
    state, _ = apply(state, 10, TargetStateRecord("c", None))
    state, _ = apply(state, 11, _CREATED)
    assert state.target_state("c") is TargetState.STARTED
    assert state.task_count_record("c") == 2
    assert state.tasks("c") == []


def test_restart_requests_and_logger_levels_change_no_state():
    requests = (RestartRequest("c", include_tasks=True, only_failed=False), LoggerLevelRecord("root", "INFO"))
    state, events = _replayed(*requests)
    assert events == list(requests)
    assert state == ClusterConfigState(offset=2)


def test_the_latest_session_key_counts():
    newer = SessionKey(b"newer", "HmacSHA256", 2)
    state, events = _replayed(_KEY, newer)
    assert state.session_key == newer
    assert events == [SessionKeyUpdate(_KEY), SessionKeyUpdate(newer)]
    assert "newer" not in repr(state)


def test_the_same_configuration_again_is_notified_and_keeps_the_tasks():
    state, events = _replayed(_CREATED, _task(0), CommitRecord("c", 1), TaskCountRecord("c", 1), _CREATED)
    assert events[-1] == ConnectorConfigUpdate("c")
    assert state.task_configs("c") == [{"n": "0"}]
    assert not state.pending_fencing("c")


def test_tasks_continue_if_compaction_moved_their_connector_after_the_commit():
    """The same connector configuration was written again, at offset 3."""
    again = ConnectorRecord("c", _CONFIG, continues=1)
    before, events = _replayed(_task(0), CommitRecord("c", 1), TaskCountRecord("c", 1))
    assert (before.tasks("c"), before.pending_fencing("c"), events) == ([], False, [None, None, None])
    state, event = apply(before, 3, again)
    assert event == ConnectorConfigUpdate("c")
    assert (state.task_configs("c"), state.pending_fencing("c")) == ([{"n": "0"}], False)
    assert state.entry("c").applied_config == _CONFIG
    for other in (CommitRecord("c", 1), _DELETED):
        state, _ = apply(apply(before, 3, other)[0], 4, again)
        assert state.tasks("c") == [], "they are of another commit, or of a connector that was deleted"


def test_generations_count_commits_that_brought_tasks():
    generations = []
    state = ClusterConfigState()
    for offset, record in enumerate(
        [_CREATED, _task(0), CommitRecord("c", 1), _task(0), CommitRecord("c", 1), CommitRecord("c", 0),
         _task(0), CommitRecord("c", 1), CommitRecord("c", 1)]
    ):  # fmt: skip
        state, _ = apply(state, offset, record)
        generations.append(state.task_config_generation("c"))
    assert generations == [None, None, 0, 0, 1, 1, 1, 2, 2]


def test_the_offset_is_one_after_the_last_record():
    """Transaction markers have offsets, too, but are not delivered.

    Without any record the offset is Java's initial one.
    """
    state = ClusterConfigState()
    assert state.offset == -1
    for offset, record in [(0, _CREATED), (2, None), (7, TaskCountRecord("c", 1))]:
        state, _ = apply(state, offset, record)
        assert state.offset == offset + 1


def test_a_state_does_not_change_when_another_is_made_of_it():
    first, _ = _replayed(_CREATED, _task(0))
    second, _ = apply(first, 2, CommitRecord("c", 1))
    apply(second, 3, _DELETED)
    assert first.tasks("c") == []
    assert second.task_configs("c") == [{"n": "0"}]


def test_the_counts_of_tasks_follow_the_records():
    """The counts are the same object while no number changes, because each group event compares them."""
    state, _ = _replayed(_CREATED, ConnectorRecord("d", _CONFIG), _task(0), _task(1), CommitRecord("c", 2))
    assert state.task_counts == {"c": 2, "d": 0}
    for offset, record in enumerate((TaskCountRecord("c", 2), _STOPPED, _task(0), _CREATED), 5):
        before = state.task_counts
        state, _ = apply(state, offset, record)
        assert state.task_counts is before
    state, _ = apply(state, 9, _DELETED)
    assert state.task_counts == {"d": 0}


# -- any log that workers may write, and any compacted form of it ------------------------------------------------


@dataclass(frozen=True)
class _Written:
    offset: int
    key: bytes
    value: bytes | None


_NAMES = st.sampled_from(["b", "b-1"])
_TEXTS = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("12"), max_size=2)


@st.composite
def _operations(draw: st.DrawFn) -> list[ConfigRecord]:
    """The records that a leader or worker writes for one request."""
    name = draw(_NAMES)
    configs = draw(st.lists(_TEXTS, max_size=3))
    tasks: list[ConfigRecord] = [
        TaskRecord(ConnectorTaskId(name, number), config) for number, config in enumerate(configs)
    ]
    commit: list[ConfigRecord] = [CommitRecord(name, len(configs))]
    count: list[ConfigRecord] = [TaskCountRecord(name, len(configs))]
    target = draw(st.sampled_from(TargetState))
    # Few values, so that a connector often gets its current configuration again.
    config = ConnectorRecord(name, draw(st.sampled_from([{}, {"x": "1"}])))
    operations: list[list[ConfigRecord]] = [
        [config],
        [config, *tasks, *commit, *count],
        [config, *tasks, *commit],
        [*tasks, *commit, *count],
        tasks,
        count,
        [TargetStateRecord(name, target)],
        [TargetStateRecord(name, target), config],
        [CommitRecord(name, 0), TargetStateRecord(name, TargetState.STOPPED)],
        [ConnectorRecord(name, None), TargetStateRecord(name, None)],
        [SessionKey(draw(st.binary(min_size=1, max_size=3)), "HmacSHA256", draw(st.integers(0, 2**40)))],
        [RestartRequest(name, draw(st.booleans()), draw(st.booleans())), LoggerLevelRecord("root", "INFO")],
    ]
    return draw(st.sampled_from(operations))


_LOGS = st.lists(_operations(), max_size=12).map(lambda parts: [record for part in parts for record in part])


def _log(records: Iterable[ConfigRecord]) -> list[_Written]:
    """Records as written by a leader that has read the log."""
    log, state = [], ClusterConfigState()
    for number, record in enumerate(records):
        # Offsets have gaps where markers are.
        offset, written = 2 * number, record
        if isinstance(record, ConnectorRecord) and record.config is not None:
            entry = state.entry(record.connector)
            written = replace(record, continues=entry.committed if entry.applied_config == record.config else None)
        log.append(_Written(offset, *encode(written)))
        state, _ = apply(state, offset, written)
    return log


def _replay(log: Sequence[_Written]) -> ClusterConfigState:
    state = ClusterConfigState()
    for written in log:
        state, _ = apply(state, written.offset, decode(written.key, written.value))
    return state


@st.composite
def _logs_and_compacted(draw: st.DrawFn) -> tuple[list[_Written], list[_Written]]:
    """A log, and the same log compacted up to some offset, with or without old tombstones.

    The last record always stays, because its segment is open.
    """
    log = _log(draw(_LOGS))
    end = draw(st.integers(0, max(0, len(log) - 1)))
    latest = {written.key: number for number, written in enumerate(log[:end])}
    kept = [written for number, written in enumerate(log[:end]) if latest[written.key] == number]
    return log, [written for written in kept if written.value is not None or draw(st.booleans())] + log[end:]


@settings(max_examples=300)
@given(_logs_and_compacted())
def test_any_compacted_form_of_a_log_gives_the_same_state(logs: tuple[list[_Written], list[_Written]]):
    """Tasks whose record is missing may be lost, but no wrong task appears."""
    log, compacted = logs
    whole, rest = _replay(log), _replay(compacted)
    assert rest.offset == whole.offset
    assert rest.session_key == whole.session_key
    assert rest.connectors() == whole.connectors()
    for name in ("b", "b-1"):
        assert rest.connector_config(name) == whole.connector_config(name)
        assert rest.target_state(name) == whole.target_state(name)
        assert rest.task_count_record(name) == whole.task_count_record(name)
        if rest.tasks(name):
            assert rest.task_configs(name) == whole.task_configs(name)
            assert rest.pending_fencing(name) == whole.pending_fencing(name)
        elif whole.tasks(name):
            # The next commit was not written yet, or its leader died before it.
            reconfigured = whole.entry(name).applied_config != whole.connector_config(name)
            assert reconfigured or rest.entry(name).inconsistent


@given(_LOGS)
def test_reading_in_parts_leads_to_the_same_state(records: list[ConfigRecord]):
    log = _log(records)
    state = ClusterConfigState()
    for written in log:
        state, _ = apply(state, written.offset, decode(written.key, written.value))
        assert state == _replay(log[: log.index(written) + 1])


@given(_LOGS)
def test_every_record_is_read_as_it_was_written(records: list[ConfigRecord]):
    assert [decode(*encode(record)) for record in records] == records
