"""Encodes and decodes source offsets as records, in Kafka Connect's format, with fencepost's headers.

The key is `["<connector>",{<source partition>}]`, where the source partition may be null. The value is `{<source
offset>}`, or null if the offset was removed. Both are JSON without spaces. The bytes of keys matter: they decide the
partition of the offsets topic, and which records compaction replaces. So the text is exactly what Java's JSON library
Jackson writes for the same map: names are in the map's order; text is UTF-8 without escapes, except for quotes,
backslashes, control characters, characters beyond 16 bits, and single surrogates.

The headers are an OffsetMark. Connect's own workers ignore them:

`fencepost.commit.time` orders the commits of a source partition over all topics and workers. It has milliseconds of
the writer's clock, but is always greater than the highest value that the writer has read for the source partition. So
a slow clock does no harm (a hybrid logical clock). If a record has no such header, its timestamp is used.

`fencepost.committed.by` names the run of the task that committed, if the task delivers exactly once. If two runs
commit the same source partition at the same time, the connector has a fault (see shared_partitions).

`fencepost.copied.from` marks a copy, and names the topic with the original commit: `topic`, or `cluster/topic` if that
topic is on another Kafka cluster than the worker's topics.

`fencepost.former.topics` names the connector's earlier offsets topics that are still needed: when the task read its
offsets, the newest commit of some source partition was only in such a topic. Copies also name the topics that they come
from. But later commits of the copied source partitions replace these copies, and a task that starts later must still
find the topics.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from fencepost.api.errors import DataError
from fencepost.api.foreign_json import parse_json
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.api.secrets import SECRETS
from fencepost.kafka.records.columns import RecordHeaders
from fencepost.storage.compact_json import text
from fencepost.storage.errors import UnstorableOffsetError

COMMIT_TIME: Final = "fencepost.commit.time"
COMMITTED_BY: Final = "fencepost.committed.by"
COPIED_FROM: Final = "fencepost.copied.from"
FORMER_TOPICS: Final = "fencepost.former.topics"

_SEPARATOR: Final = "/"
_TIME: Final = re.compile(rb"[0-9]{1,18}")
"""Matches a number of milliseconds. More digits cannot be a time, and Python refuses to parse thousands of digits."""

_INT64_END: Final = 1 << 63
# Java writes numbers from 1e-3 to 1e7 with plain digits, and others in the form 1.5E10.
_PLAIN_FROM: Final = 1e-3
_PLAIN_BELOW: Final = 1e7

_SHOWN: Final = 200
# All calls use this encoder, because json.dumps would make a new one for each call with arguments.
_IDENTITY: Final = json.JSONEncoder(sort_keys=True)


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """The decoded key of an offset record. `identity` is the result of `identity_of` for the source partition."""

    connector: str
    partition: dict[str, Any] | None
    identity: str


def identity_of(partition: SourcePartition | None) -> str:
    """Return a text that is equal for equal source partitions, whatever the order of the fields.

    1, 1.0, true and "1" have different texts, because they are different in JSON.
    """
    return _IDENTITY.encode(partition)


def encode_key(connector: str, partition: SourcePartition | None) -> bytes:
    """Return the key of a source partition's offset records. None is a valid source partition.

    Raises UnstorableOffsetError if the partition is not a map from text to text, numbers, booleans and None.
    """
    encoded = "null" if partition is None else _object(connector, "partition", partition)
    return f"[{text(connector)},{encoded}]".encode()


def encode_value(connector: str, offset: SourceOffset | None) -> bytes | None:
    """Return the value for a source offset; None removes the offset. Raises the errors of `encode_key`."""
    return None if offset is None else _object(connector, "offset", offset).encode()


def decode_key(key: bytes | None) -> OffsetKey | None:
    """Return the decoded key, which may contain spaces; None if it is not the key of an offset record."""
    try:
        decoded = parse_json(key or b"")
    except ValueError:
        return None
    match decoded:
        case [str() as connector, dict() | None as partition]:
            return OffsetKey(connector, partition, identity_of(partition))
    return None


def decode_value(value: bytes | None) -> dict[str, Any] | None:
    """Return a source offset; None for a tombstone. Raises DataError for a value that is not a JSON object."""
    if value is None:
        return None
    try:
        decoded = parse_json(value)
    except ValueError:
        decoded = value
    if decoded is not None and not isinstance(decoded, dict):
        shown = SECRETS.excerpt(repr(value), _SHOWN)
        raise DataError(f'{shown} is not a source offset: it should be a JSON object such as {{"position":42}}')
    return decoded


def _object(connector: str, what: str, data: Mapping[str, Any]) -> str:
    if not isinstance(data, Mapping):
        raise UnstorableOffsetError(
            f"Connector {connector}: a source {what} must be a mapping such as {{'file': 'a.csv'}}, "
            f"not {type(data).__name__}"
        )
    return "{" + ",".join(_member(connector, what, name, value) for name, value in data.items()) + "}"


def _member(connector: str, what: str, name: Any, value: Any) -> str:
    if not isinstance(name, str):
        raise UnstorableOffsetError(
            f"Connector {connector}: the source {what} has the name {name!r} of type {type(name).__name__}; names must "
            "be text"
        )
    return f"{text(name)}:{_primitive(connector, what, name, value)}"


def _primitive(connector: str, what: str, name: str, value: Any) -> str:
    problem = None
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return text(value)
        case int() if -_INT64_END <= value < _INT64_END:
            return int.__repr__(value)
        case float() if math.isfinite(value):
            return _java_double(value)
        case int():
            problem = f"a number of {value.bit_length() + 1} bits, of which 64 can be stored: give it as text"
        case float():
            problem = f"{value}, which JSON has no number for: give it as text, or leave it out"
        case _:
            problem = (
                f"a value of type {type(value).__name__}; only text, numbers, booleans and None can be stored: convert "
                "it, and put the parts of nested values under names of their own"
            )
    raise UnstorableOffsetError(f"Connector {connector}: {name!r} in the source {what} is {problem}")


def _java_double(value: float) -> str:
    """Return the text of Java's Double.toString: with the fewest digits that parse to the same number."""
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        # Python's repr uses exponents only for numbers far outside of this range.
        return repr(float(value))
    sign, digits, exponent = _shortest(value)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _shortest(value: float) -> tuple[str, str, int]:
    """Return the sign, the digits without leading or trailing zeros, and the exponent of the first digit.

    If one digit would be enough, Java takes the nearest number with two: for the smallest double 4.9E-324, not
    5.0E-324.
    """
    two = f"{value:.1e}"
    shortest = two if float(two) == value else f"{float(value)!r}"
    mantissa, _, exponent = shortest.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    first = len(whole) - 1 - leading + int(exponent or 0)
    return "-" if value < 0 else "", digits.strip("0"), first


@dataclass(frozen=True, slots=True)
class Origin:
    """The offsets topic with the original commit.

    `cluster_id` is None for the Kafka cluster of the worker's own topics.
    """

    topic: str
    cluster_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of an origin. The name of a topic never contains a slash."""
        cluster_id, separator, topic = text.rpartition(_SEPARATOR)
        return cls(topic, cluster_id if separator else None)

    def __str__(self) -> str:
        return self.topic if self.cluster_id is None else f"{self.cluster_id}{_SEPARATOR}{self.topic}"


@dataclass(frozen=True, slots=True)
class CommitAuthor:
    """A task, by its transactional id, and a text without spaces that is unique to this run of the task.

    After a task reads offsets again, its commits count as another run, because it may now know other tasks' commits.
    """

    task: str
    run: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse the header text that names a run; return None for any other text."""
        run, separator, task = text.partition(" ")
        return cls(task, run) if separator else None

    def __str__(self) -> str:
        return f"{self.run} {self.task}"


@dataclass(frozen=True, slots=True)
class OffsetMark:
    """The commit of an offset: time in milliseconds, original topic (for a copy), and run of the task (if known).

    A larger time means a later commit. `former` are the connector's earlier offsets topics that are still needed: only
    they have the newest commit of some source partition.
    """

    time: int
    origin: Origin | None = None
    author: CommitAuthor | None = None
    former: frozenset[Origin] = frozenset()

    def headers(self) -> RecordHeaders:
        """Return the headers of a record with this OffsetMark."""
        former = " ".join(sorted(map(str, self.former))) or None
        parts = {COMMIT_TIME: self.time, COMMITTED_BY: self.author, COPIED_FROM: self.origin, FORMER_TOPICS: former}
        return tuple((name, str(part).encode()) for name, part in parts.items() if part is not None)


def mark_of(headers: Iterable[tuple[str, bytes | None]], timestamp: int) -> OffsetMark:
    """Return the OffsetMark in a record's headers. If its time is missing or malformed, the time is `timestamp`."""
    values = {name: value for name, value in headers if value}
    time, origin, author = values.get(COMMIT_TIME), values.get(COPIED_FROM), values.get(COMMITTED_BY)
    return OffsetMark(
        int(time) if time is not None and _TIME.fullmatch(time) else timestamp,
        None if origin is None else Origin.parse(origin.decode(errors="replace")),
        None if author is None else CommitAuthor.parse(author.decode(errors="replace")),
        frozenset(map(Origin.parse, values.get(FORMER_TOPICS, b"").decode(errors="replace").split())),
    )
