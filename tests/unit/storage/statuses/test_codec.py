"""Records of the status topic, and the comparison of two reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.statuses.codec import ActiveTopic, Status, Subject, TopicStatus, decode, encode
from fencepost.storage.statuses.table import StatusTable, may_overwrite

_TASK = ConnectorTaskId("c1", 0)
_STATES = ["UNASSIGNED", "RUNNING", "PAUSED", "FAILED", "RESTARTING", "STOPPED"]

_NAMES = st.text("ab:-.é", min_size=1, max_size=6)
_STATUSES = st.builds(
    Status, st.sampled_from(_STATES), st.text(), st.integers(-1, 2**31), st.none() | st.text(), st.none() | st.text()
)
_TOPIC_NAMES = st.text("ab-._1", min_size=1, max_size=6)


@given(_NAMES, _STATUSES)
def test_a_connectors_status_is_read_as_it_was_written(name: str, status: Status):
    assert decode(*encode(name, status)) == (name, status)


@given(_NAMES, st.integers(0, 2**31), _STATUSES)
def test_a_tasks_status_is_read_as_it_was_written(name: str, number: int, status: Status):
    task = ConnectorTaskId(name, number)
    assert decode(*encode(task, status)) == (task, status)


@given(_NAMES, _TOPIC_NAMES, st.integers(0, 99), st.integers(0, 2**62))
def test_an_active_topic_survives_encoding_and_decoding(connector: str, topic: str, task: int, moment: int):
    active = ActiveTopic(connector, topic)
    status = TopicStatus(topic, connector, task, moment)
    assert decode(*encode(active, status)) == (active, status)


@pytest.mark.parametrize("subject", ["c1", _TASK, ActiveTopic("c1", "t")])
def test_a_tombstone_is_read_as_one(subject: Subject):
    assert decode(*encode(subject, None)) == (subject, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"other", None),
        (b"status-connector-", None),
        (b"status-task-c", None),
        (b"status-task--1", None),
        (b"status-topic-t", None),
        (b"status-topic-:connector-c", None),
        (b"status-connector-c", b""),
        (b"status-connector-c", b"null"),
        (b"status-connector-c", b'{"state":1,"worker_id":"w","generation":1}'),
        (b"status-connector-c", b'{"state":"RUNNING","worker_id":"w","generation":true}'),
        (b"status-connector-c", b'{"state":"RUNNING","worker_id":"w"}'),
        (b"status-connector-c", b'{"state":"RUNNING","worker_id":"w","generation":1,"trace":1}'),
        (b"status-topic-t:connector-c", b'{"topic":{"name":"t"}}'),
        (b"status-topic-t:connector-c", b'{"topic":[]}'),
    ],
)
def test_malformed_records_have_no_effect(key: bytes | None, value: bytes | None):
    assert decode(key, value) is None


@given(st.none() | st.binary(), st.none() | st.binary())
def test_arbitrary_bytes_are_handled(key: bytes | None, value: bytes | None):
    found = decode(key, value)
    # A report that can be read can also be written and read again.
    assert found is None or decode(*encode(*found)) == found


@pytest.mark.parametrize("state", _STATES)
def test_only_reports_about_revoked_work_can_be_late(state: str):
    late = Status(state, "old", 4)
    others = Status("RUNNING", "new", 5)
    assert may_overwrite(others, late) == (state not in {"UNASSIGNED", "FAILED"})


@pytest.mark.parametrize("state", ["UNASSIGNED", "FAILED"])
@pytest.mark.parametrize(
    "stored", [None, Status("RUNNING", "w", 9), Status("RUNNING", "other", 5), Status("RUNNING", "other", 4)]
)
def test_a_report_that_is_not_late_counts(state: str, stored: Status | None):
    assert may_overwrite(stored, Status(state, "w", 5))


def test_reports_from_before_this_worker_joined_are_not_late():
    table = StatusTable()
    for subject in ("c1", _TASK):
        table.apply(subject, Status("RUNNING", "former", 57))
    failed = Status("FAILED", "w", 1)
    assert not table.allows(_TASK, failed)
    table.join()
    assert table.allows("c1", failed)
    assert table.allows(_TASK, failed)
    table.apply(_TASK, Status("RUNNING", "other", 2))
    assert not table.allows(_TASK, failed)


def test_a_table_knows_the_latest_of_everything():
    table = StatusTable()
    running = Status("RUNNING", "w", 1)
    active = TopicStatus("t", "c1", 0, 5)
    table.apply("c1", running)
    table.apply("c2", running)
    for number in (2, 0, 10):
        table.apply(ConnectorTaskId("c1", number), running)
    table.apply(_TASK, Status("FAILED", "w", 1, trace="why"))
    table.apply(ActiveTopic("c1", "t"), active)
    assert table.connectors() == ["c1", "c2"]
    assert [task.task for task in table.tasks("c1")] == [0, 2, 10]
    assert table.task(_TASK) == Status("FAILED", "w", 1, trace="why")
    assert table.topics("c1") == [active]
    table.apply(_TASK, None)
    table.apply("c1", None)
    table.apply(ActiveTopic("c1", "t"), None)
    assert (table.connectors(), table.task(_TASK), table.topics("c1")) == (["c2"], None, [])
    assert [task.task for task in table.tasks("c1")] == [2, 10]


def test_a_table_shows_missing_values():
    table = StatusTable()
    for name in ("there", "gone"):
        table.apply(name, Status("RUNNING", "w", 1))
    for name, number in (("there", 0), ("there", 1), ("there", 2), ("gone", 0), ("left", 0)):
        table.apply(ConnectorTaskId(name, number), Status("RUNNING", "w", 1))
    connectors, tasks = table.others({"there": 2, "new": 1})
    assert connectors == ["gone"]
    assert sorted(map(str, tasks)) == ["left-0", "there-2"]
    assert table.others({"there": 3, "gone": 1, "left": 1}) == ([], [])


def test_removing_an_unknown_status_changes_nothing():
    table = StatusTable()
    for subject in ("c1", _TASK, ActiveTopic("c1", "t")):
        table.apply(subject, None)
    assert (table.connectors(), table.tasks("c1"), table.topics("c1")) == ([], {}, [])
