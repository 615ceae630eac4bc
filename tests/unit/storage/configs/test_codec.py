"""Single records of the config topic: Connect's bytes, and malformed records."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
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

_EXAMPLES: list[tuple[ConfigRecord, bytes, bytes | None]] = [
    (
        SessionKey(b"\x00\xff", "HmacSHA256", 1795255647511),
        b"session-key",
        b'{"key":"AP8=","algorithm":"HmacSHA256","creation-timestamp":1795255647511}',
    ),
    (
        ConnectorRecord("c1", {"connector.class": "C", "text": 'é"\n', "none": None}),
        b"connector-c1",
        b'{"properties":{"connector.class":"C","text":"\xc3\xa9\\"\\n","none":null}}',
    ),
    (ConnectorRecord("c1", {}, 7), b"connector-c1", b'{"properties":{},"continues":7}'),
    (ConnectorRecord("c1", None), b"connector-c1", None),
    (TaskRecord(ConnectorTaskId("c-1", 12), {"task.id": "12"}), b"task-c-1-12", b'{"properties":{"task.id":"12"}}'),
    (CommitRecord("c1", 2), b"commit-c1", b'{"tasks":2}'),
    (CommitRecord("c1", 2, "d1"), b"commit-c1", b'{"tasks":2,"digest":"d1"}'),
    (CommitRecord("c1", 2, "d1", 7), b"commit-c1", b'{"tasks":2,"digest":"d1","continues":7}'),
    (CommitRecord("c1", 2, "d1", 7, adds=True), b"commit-c1", b'{"tasks":2,"digest":"d1","continues":7,"adds":true}'),
    (TaskCountRecord("c1", 2), b"tasks-fencing-c1", b'{"task-count":2}'),
    (TaskCountRecord("c1", None), b"tasks-fencing-c1", None),
    (TargetStateRecord("c1", TargetState.PAUSED), b"target-state-c1", b'{"state":"PAUSED","state.v2":"PAUSED"}'),
    (TargetStateRecord("c1", TargetState.STOPPED), b"target-state-c1", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
    (TargetStateRecord("c1", TargetState.STARTED), b"target-state-c1", b'{"state":"STARTED","state.v2":"STARTED"}'),
    (TargetStateRecord("c1", None), b"target-state-c1", None),
    (
        RestartRequest("c1", include_tasks=True, only_failed=False),
        b"restart-connector-c1",
        b'{"include-tasks":true,"only-failed":false}',
    ),
    (LoggerLevelRecord("org.apache", "INFO"), b"logger-cluster-org.apache", b'{"level":"INFO"}'),
]


@pytest.mark.parametrize(("record", "key", "value"), _EXAMPLES)
def test_records_match_connect_byte_for_byte(record: ConfigRecord, key: bytes, value: bytes | None):
    assert encode(record) == (key, value)
    assert decode(key, value) == record


@pytest.mark.parametrize(
    ("key", "value", "record"),
    [
        (b"target-state-c", b'{"state":"PAUSED"}', TargetStateRecord("c", TargetState.PAUSED)),
        (b"target-state-c", b'{"state": "PAUSED", "state.v2": "STOPPED"}', TargetStateRecord("c", TargetState.STOPPED)),
        (b"target-state-c", b'{"state":"PAUSED","state.v2":null}', TargetStateRecord("c", TargetState.PAUSED)),
        (b"tasks-count-c", b'{"tasks":4}', TaskCountRecord("c", 4)),
        (b"restart-connector-c", b'{"include-tasks":"true","only-failed":1}', RestartRequest("c", False, False)),
        (b"restart-connector-c", b'{"only-failed":true}', RestartRequest("c", False, True)),
        (b"connector-task-0", b'{"properties":{}}', ConnectorRecord("task-0", {})),
    ],
)
def test_other_spellings_are_read(key: bytes, value: bytes, record: ConfigRecord):
    """Workers before 3.5 write only `state`; non-boolean values count as false; the KIP's spelling is accepted."""
    assert decode(key, value) == record


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"session-key", None),
        (b"session-key", b'{"key":"no base64!","algorithm":"A","creation-timestamp":1}'),
        (b"session-key", '{"key":"é","algorithm":"A","creation-timestamp":1}'.encode()),
        (b"session-key", b'{"key":"AP8=","algorithm":"A","creation-timestamp":"1"}'),
        (b"session-key", b'{"key":"AP8=","creation-timestamp":1}'),
        (b"connector-c", b""),
        (b"connector-c", b"[]"),
        (b"connector-c", b"{}"),
        (b"connector-c", b'{"properties":[]}'),
        (b"connector-c", b'{"properties":{"tasks.max":1}}'),
        (b"task-c", b'{"properties":{}}'),
        (b"task-c-", b'{"properties":{}}'),
        (b"task-c-x", b'{"properties":{}}'),
        (b"task-c-\xc2\xb2", b'{"properties":{}}'),
        (b"task-c-0", None),
        (b"task-c-" + b"9" * 5000, b'{"properties":{}}'),
        (b"commit-c", None),
        (b"commit-c", b'{"tasks":true}'),
        (b"commit-c", b'{"tasks":1.0}'),
        (b"commit-c", b'{"tasks":9223372036854775808}'),
        (b"commit-c", b'{"tasks":"1"}'),
        (b"tasks-fencing-c", b'{"task-count":-1}'),
        (b"target-state-c", b"{}"),
        (b"target-state-c", b'{"state":"SLEEPING"}'),
        (b"target-state-c", b'{"state":"PAUSED","state.v2":"SLEEPING"}'),
        (b"target-state-c", b'{"state":{}}'),
        (b"restart-connector-c", None),
        (b"logger-cluster-l", b'{"level":null}'),
    ],
)
def test_malformed_records_are_ignored_and_logged(key: bytes, value: bytes | None, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        assert decode(key, value) is None
    assert key.decode() in caplog.text


@pytest.mark.parametrize("key", [None, b"", b"connector-", b"other", b"\xff"])
def test_records_of_others_are_ignored(key: bytes | None):
    assert decode(key, b"{}") is None


@given(st.none() | st.binary(), st.none() | st.binary())
def test_arbitrary_bytes_are_handled(key: bytes | None, value: bytes | None):
    _assert_nothing_or_a_record(decode(key, value))


@given(
    st.sampled_from([key for _, key, _ in _EXAMPLES]),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists),
    st.sampled_from(["properties", "tasks", "state", "state.v2", "level", "key", "task-count"]),
)
def test_arbitrary_values_are_handled(key: bytes, member: object, name: str):
    _assert_nothing_or_a_record(decode(key, json.dumps({name: member}).encode()))
    _assert_nothing_or_a_record(decode(key, json.dumps(member).encode()))


def _assert_nothing_or_a_record(found: ConfigRecord | None) -> None:
    """Check that a record which can be read can also be written and read again."""
    assert found is None or decode(*encode(found)) == found


def test_secrets_do_not_show_in_messages():
    assert "secret" not in repr(ConnectorRecord("c", {"password": "secret"}))
    assert "secret" not in repr(SessionKey(b"secret", "A", 1))
    assert "secret" not in repr(TaskRecord(ConnectorTaskId("c", 0), {"password": "secret"}))
