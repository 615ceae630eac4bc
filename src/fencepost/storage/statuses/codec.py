"""Encodes and decodes the records of the status topic: states of connectors and tasks, and their active topics.

Keys are text. Values are JSON objects without spaces, or null for tombstones. The format is Kafka Connect's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.foreign_json import parse_json
from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.compact_json import Json, compact

if TYPE_CHECKING:
    from fencepost.kafka.records.columns import Row

_CONNECTOR: Final = "status-connector-"
_TASK: Final = "status-task-"
_TOPIC: Final = "status-topic-"
# The text between the names of topic and connector. The names of topics contain no colon.
_TOPIC_END: Final = ":connector-"


@dataclass(frozen=True, slots=True, order=True)
class ActiveTopic:
    """A topic to which a connector wrote."""

    connector: str
    topic: str


Subject = str | ConnectorTaskId | ActiveTopic
"""The subject of a record: a connector (by its name), a task, or a topic of a connector."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a connector or task. `worker_id` (host:port) reported it in this `generation` of the group.

    `state` is one of Connect's states: UNASSIGNED, RUNNING, PAUSED, FAILED, RESTARTING, and STOPPED for connectors.
    `trace` is set for FAILED. `version` is the plugin's version.
    """

    state: str
    worker_id: str
    generation: int
    trace: str | None = field(default=None, repr=False)
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A task wrote to a topic. The first time was `discover_timestamp` (milliseconds)."""

    topic: str
    connector: str
    task: int
    discover_timestamp: int


def encode_key(subject: Subject) -> bytes:
    """Return the key of a subject's records."""
    match subject:
        case str():
            name = f"{_CONNECTOR}{subject}"
        case ConnectorTaskId():
            name = f"{_TASK}{subject}"
        case ActiveTopic(connector, topic):
            name = f"{_TOPIC}{topic}{_TOPIC_END}{connector}"
    return name.encode()


def encode(subject: Subject, status: Status | TopicStatus | None) -> Row:
    """Return the key and the value of a record. None makes a tombstone."""
    match status:
        case None:
            value = None
        case Status(state, worker_id, generation, trace, version):
            # `state` may be a member of an enumeration, so it is converted to text.
            value = compact(
                {
                    "state": str(state),
                    "trace": trace,
                    "worker_id": worker_id,
                    "generation": generation,
                    "version": version,
                }
            )
        case TopicStatus(topic, connector, task, discovered):
            about: Json = {"name": topic, "connector": connector, "task": task, "discoverTimestamp": discovered}
            value = compact({"topic": about})
    return encode_key(subject), value


def decode(key: bytes | None, value: bytes | None) -> tuple[Subject, Status | TopicStatus | None] | None:
    """Return a record's subject and status; None if the record is malformed."""
    try:
        subject = _subject((key or b"").decode())
        if value is None:
            return subject, None
        decoded = parse_json(value)
        status = _topic_status(decoded["topic"]) if isinstance(subject, ActiveTopic) else _status(decoded)
    except (ValueError, LookupError, TypeError):
        return None
    return subject, status


def _subject(name: str) -> Subject:
    if name.startswith(_TASK):
        connector, _, task = name.removeprefix(_TASK).rpartition("-")
        if not connector:
            raise ValueError(name)
        return ConnectorTaskId(connector, int(task))
    if name.startswith(_TOPIC):
        topic, end, connector = name.removeprefix(_TOPIC).partition(_TOPIC_END)
        if not (topic and end and connector):
            raise ValueError(name)
        return ActiveTopic(connector, topic)
    connector = name.removeprefix(_CONNECTOR)
    if connector in ("", name):
        raise ValueError(name)
    return connector


def _status(value: dict[str, Any]) -> Status:
    return Status(
        state=_of(str, value["state"]),
        worker_id=_of(str, value["worker_id"]),
        generation=_of(int, value["generation"]),
        trace=_of(str | None, value.get("trace")),
        version=_of(str | None, value.get("version")),
    )


def _topic_status(value: dict[str, Any]) -> TopicStatus:
    return TopicStatus(
        topic=_of(str, value["name"]),
        connector=_of(str, value["connector"]),
        task=_of(int, value["task"]),
        discover_timestamp=_of(int, value["discoverTimestamp"]),
    )


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(value)
    return value
