"""Encodes and decodes the records of the config topic, in Kafka Connect's format.

Keys are text. Values are JSON objects without spaces, or null for a tombstone. topic.py defines which worker may write
a record. state.py combines the records to a state.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.foreign_json import parse_json
from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.compact_json import Json, compact
from fencepost.storage.configs.task_count import decode_task_count, encode_task_count

if TYPE_CHECKING:
    from fencepost.kafka.records.columns import Row

_LOG: Final = logging.getLogger(__name__)

_INT64: Final = range(-(1 << 63), 1 << 63)
_SESSION_KEY: Final = "session-key"

Config = Mapping[str, str | None]
"""The properties of a connector or task."""


class TargetState(StrEnum):
    """The target state of a connector."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key that signs requests between workers (KIP-507). `creation_timestamp` is in milliseconds."""

    key: bytes = field(repr=False)
    algorithm: str
    creation_timestamp: int


@dataclass(frozen=True, slots=True)
class ConnectorRecord:
    """A connector's configuration; None for a deleted connector.

    If the connector has tasks of exactly this configuration, `continues` is the offset of their commit record. See
    state.py. Kafka Connect ignores this field.
    """

    connector: str
    config: Config | None = field(repr=False)
    continues: int | None = None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task's configuration, which takes effect with the next commit record."""

    id: ConnectorTaskId
    config: Config = field(repr=False)


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """Puts the preceding task records of a connector into force. Contains the number of its tasks.

    If unchanged tasks keep running, `digest` is the digest of the committed configurations, and `continues` is the
    offset of the connector's previous commit: see state.py. `adds` means that tasks keep running if only source
    partitions were added to them; a leader of an older version fences such tasks. Kafka Connect ignores these fields.
    """

    connector: str
    tasks: int
    digest: str | None = None
    continues: int | None = None
    adds: bool = False


@dataclass(frozen=True, slots=True)
class TaskCountRecord:
    """Declares that former tasks are fenced, and how many tasks may run now (KIP-618). None makes a tombstone."""

    connector: str
    tasks: int | None


@dataclass(frozen=True, slots=True)
class TargetStateRecord:
    """Sets the target state of a connector. None makes a tombstone."""

    connector: str
    state: TargetState | None


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """Requests the restart of a connector, with or without its tasks (KIP-745). May be limited to failed ones."""

    connector: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class LoggerLevelRecord:
    """Sets the level of a logger on all workers (KIP-976)."""

    logger: str
    level: str


ConfigRecord = (
    ConnectorRecord
    | TaskRecord
    | CommitRecord
    | TaskCountRecord
    | TargetStateRecord
    | RestartRequest
    | LoggerLevelRecord
    | SessionKey
)


def encode(record: ConfigRecord) -> Row:
    """Return key and value of a record."""
    value: Json
    match record:
        case ConnectorRecord(connector, None):
            key, value = f"connector-{connector}", None
        case ConnectorRecord(connector, config, continues):
            key, value = f"connector-{connector}", {"properties": config, **_present(continues=continues)}
        case TaskRecord(task, config):
            key, value = f"task-{task}", {"properties": config}
        case CommitRecord(connector, tasks, digest, continues, adds):
            more = _present(digest=digest, continues=continues, adds=adds or None)
            key, value = f"commit-{connector}", {"tasks": tasks, **more}
        case TaskCountRecord(connector, tasks):
            return encode_task_count(connector, tasks)
        case TargetStateRecord(connector, state):
            key, value = f"target-state-{connector}", None if state is None else _target_state(state)
        case RestartRequest(connector, include_tasks, only_failed):
            key = f"restart-connector-{connector}"
            value = {"include-tasks": include_tasks, "only-failed": only_failed}
        case LoggerLevelRecord(logger, level):
            key, value = f"logger-cluster-{logger}", {"level": level}
        case SessionKey(secret, algorithm, created):
            shown = base64.b64encode(secret).decode()
            key, value = _SESSION_KEY, {"key": shown, "algorithm": algorithm, "creation-timestamp": created}
    return key.encode(), None if value is None else compact(value)


def _present(**fields: Json) -> dict[str, Json]:
    return {name: given for name, given in fields.items() if given is not None}


def _target_state(state: TargetState) -> dict[str, str]:
    # Workers that do not know STOPPED read the field `state`. PAUSED is the most similar state (KIP-875).
    first = TargetState.PAUSED if state is TargetState.STOPPED else state
    return {"state": first, "state.v2": state}


def decode(key: bytes | None, value: bytes | None) -> ConfigRecord | None:
    """Return the decoded record. If it is unknown or malformed, log a message and return None."""
    name = (key or b"").decode(errors="replace")
    try:
        record = _decoded(name, key, value)
    except _MalformedError as error:
        _LOG.warning("The record %s of the config topic is ignored: %s", name or "without key", error)
        return None
    if record is None:
        _LOG.debug("The config topic's record with the key %r is unknown", name)
    return record


class _MalformedError(Exception):
    """A record is malformed. The message says why."""


def _decoded(name: str, key: bytes | None, value: bytes | None) -> ConfigRecord | None:
    if name == _SESSION_KEY:
        return _session_key(_object(value))
    for prefix, read in _READERS.items():
        rest = name.removeprefix(prefix)
        if rest not in ("", name):
            return read(rest, value)
    count = decode_task_count(key, value)
    return None if count is None else TaskCountRecord(*count)


_MOST_DIGITS: Final = 10
"""The largest number of digits in a task's number, a Java int. Python refuses to parse thousands of digits."""


def _connector(connector: str, value: bytes | None) -> ConnectorRecord:
    if value is None:
        return ConnectorRecord(connector, None)
    return ConnectorRecord(connector, _config(value), _optional_integer(_object(value), "continues"))


def _task(name: str, value: bytes | None) -> TaskRecord:
    connector, _, number = name.rpartition("-")
    if not connector or not (number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS):
        raise _MalformedError("its key does not end in the number of a task")
    return TaskRecord(ConnectorTaskId(connector, int(number)), _config(value))


def _commit(connector: str, value: bytes | None) -> CommitRecord:
    commit = _object(value)
    digest = _string(commit, "digest") if "digest" in commit else None
    continues, adds = _optional_integer(commit, "continues"), commit.get("adds") is True
    return CommitRecord(connector, _integer(commit, "tasks"), digest, continues, adds)


def _read_target_state(connector: str, value: bytes | None) -> TargetStateRecord:
    if value is None:
        return TargetStateRecord(connector, None)
    states = _object(value)
    name = _string(states, "state" if states.get("state.v2") is None else "state.v2")
    try:
        return TargetStateRecord(connector, TargetState(name))
    except ValueError:
        raise _MalformedError(f"the target state {name!r} is not known") from None


def _restart(connector: str, value: bytes | None) -> RestartRequest:
    options = _object(value)
    return RestartRequest(connector, options.get("include-tasks") is True, options.get("only-failed") is True)


def _logger(logger: str, value: bytes | None) -> LoggerLevelRecord:
    return LoggerLevelRecord(logger, _string(_object(value), "level"))


_READERS: Final[Mapping[str, Callable[[str, bytes | None], ConfigRecord]]] = {
    "connector-": _connector,
    "task-": _task,
    "commit-": _commit,
    "target-state-": _read_target_state,
    "restart-connector-": _restart,
    "logger-cluster-": _logger,
}


def _object(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise _MalformedError("it has no value")
    try:
        decoded = parse_json(value)
    except ValueError:
        raise _MalformedError("its value is not JSON") from None
    if not isinstance(decoded, dict):
        raise _MalformedError("its value is not a JSON object")
    return decoded


def _config(value: bytes | None) -> Config:
    properties = _object(value).get("properties")
    if not isinstance(properties, dict):
        raise _MalformedError("it has no properties")
    wrong = [name for name, text in properties.items() if text is not None and not isinstance(text, str)]
    if wrong:
        raise _MalformedError(f"the properties {', '.join(wrong)} are not text")
    return MappingProxyType(properties)


def _session_key(value: Mapping[str, Any]) -> SessionKey:
    try:
        key = base64.b64decode(_string(value, "key"), validate=True)
    except ValueError:
        raise _MalformedError("its key is not base64") from None
    return SessionKey(key, _string(value, "algorithm"), _integer(value, "creation-timestamp"))


def _string(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str):
        raise _MalformedError(f"{name} is not text")
    return text


def _optional_integer(value: Mapping[str, Any], name: str) -> int | None:
    return _integer(value, name) if name in value else None


def _integer(value: Mapping[str, Any], name: str) -> int:
    number = value.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or number not in _INT64:
        raise _MalformedError(f"{name} is not an integer of 64 bits at most")
    return number
