"""Encodes and decodes source offsets as records, in Kafka Connect's format, with fencepost's headers.

The key is `["<connector>",{<source partition>}]`, where the source partition may be null, and the value `{<source
offset>}`, or null for one that was removed, both as JSON without spaces. Byte equality of keys matters: it decides the
partition of the offsets topic, and which records compaction replaces. So the text is exactly that which Jackson writes, Java's
JSON library, for the same map: names in the map's order, UTF-8 without escapes except for quotes, backslashes, control
characters, characters beyond 16 bits and surrogates that stand alone.

The headers are an OffsetMark. Connect's own workers ignore them:

`fencepost.commit.time` orders the commits of a source partition over all topics and workers: milliseconds of the
writer's clock, but always more than the highest value that the writer has read for the source partition. So a slow
clock is harmless (a hybrid logical clock). For a record without the header, its timestamp is used.

`fencepost.committed.by` names the run of the task that committed, if the task delivers exactly once: two runs that
commit the same source partition at the same time are a mistake of the connector (see shared_partitions).

`fencepost.copied.from` marks a copy, and names the topic that holds the commit itself: `topic`, or `cluster/topic`
if that is on another Kafka cluster than the worker's topics.

`fencepost.former.topics` names earlier offsets topics of the connector, if only they had the newest commit of one of
its source partitions when the task read its offsets. The copies that named these topics may be replaced by commits of
other source partitions, and a task that starts later must find them all the same.
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
"""The maximum number of digits of milliseconds: more are not a time, and Python refuses to parse thousands."""

_INT64_END: Final = 1 << 63
# Java writes numbers from 1e-3 to 1e7 with plain digits, others as 1.5E10.
_PLAIN_FROM: Final = 1e-3
_PLAIN_BELOW: Final = 1e7

_SHOWN: Final = 200
# One for all: json.dumps makes an encoder for each call with arguments.
_IDENTITY: Final = json.JSONEncoder(sort_keys=True)


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """The decoded key of an offset record. `identity` is `identity_of` the source partition."""

    connector: str
    partition: dict[str, Any] | None
    identity: str


def identity_of(partition: SourcePartition | None) -> str:
    """Return a text that is the same for equal source partitions, with any order of their names.

    1, 1.0, true and "1" differ, as they do in JSON.
    """
    return _IDENTITY.encode(partition)


def encode_key(connector: str, partition: SourcePartition | None) -> bytes:
    """Return the key of a source partition's offset records. None is a source partition, too.

    Raises UnstorableOffsetError unless the partition maps text to text, numbers, booleans and None.
    """
    encoded = "null" if partition is None else _object(connector, "partition", partition)
    return f"[{text(connector)},{encoded}]".encode()


def encode_value(connector: str, offset: SourceOffset | None) -> bytes | None:
    """Return the value for a source offset, None to remove it. Raises as `encode_key`."""
    return None if offset is None else _object(connector, "offset", offset).encode()


def decode_key(key: bytes | None) -> OffsetKey | None:
    """Return the decoded key, of any writer and with any spaces; None if it is not an offset record's."""
    try:
        decoded = parse_json(key or b"")
    except ValueError:
        return None
    match decoded:
        case [str() as connector, dict() | None as partition]:
            return OffsetKey(connector, partition, identity_of(partition))
    return None


def decode_value(value: bytes | None) -> dict[str, Any] | None:
    """Return a source offset, None for a tombstone. Raises DataError for a value that is not a JSON object."""
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
    """Like Java's Double.toString: the shortest digits that parse to the same number."""
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        # Python's repr uses exponents only far outside of this range.
        return repr(float(value))
    sign, digits, exponent = _shortest(value)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _shortest(value: float) -> tuple[str, str, int]:
    """Sign, digits without leading or trailing zeros, and the exponent of the first digit.

    Where one digit would do, Java takes the nearest number of two: 4.9E-324 for the smallest double, not 5.0E-324.
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
    """The offsets topic that holds a commit. `cluster_id` is None for the Kafka cluster of the worker's own topics."""

    topic: str
    cluster_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the `str` of an origin; a topic's name has no slash."""
        cluster_id, separator, topic = text.rpartition(_SEPARATOR)
        return cls(topic, cluster_id if separator else None)

    def __str__(self) -> str:
        return self.topic if self.cluster_id is None else f"{self.cluster_id}{_SEPARATOR}{self.topic}"


@dataclass(frozen=True, slots=True)
class CommitAuthor:
    """A task, by its transactional id, and a text without spaces that no other run of the task has.

    Commits after a task has read offsets again count as another run: it may know other tasks' commits then.
    """

    task: str
    run: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse the text of a run, None for any other text."""
        run, separator, task = text.partition(" ")
        return cls(task, run) if separator else None

    def __str__(self) -> str:
        return f"{self.run} {self.task}"


@dataclass(frozen=True, slots=True)
class OffsetMark:
    """The commit of an offset: its time in milliseconds, the topic if it is a copy, and the task if known.

    Larger times are later commits. `former` are topics that have offsets of other source partitions.
    """

    time: int
    origin: Origin | None = None
    author: CommitAuthor | None = None
    former: frozenset[Origin] = frozenset()

    def headers(self) -> RecordHeaders:
        """Return the headers of a record with this mark."""
        former = " ".join(sorted(map(str, self.former))) or None
        parts = {COMMIT_TIME: self.time, COMMITTED_BY: self.author, COPIED_FROM: self.origin, FORMER_TOPICS: former}
        return tuple((name, str(part).encode()) for name, part in parts.items() if part is not None)


def mark_of(headers: Iterable[tuple[str, bytes | None]], timestamp: int) -> OffsetMark:
    """Return the mark of a record with these headers; a missing or malformed time is replaced by `timestamp`."""
    values = {name: value for name, value in headers if value}
    time, origin, author = values.get(COMMIT_TIME), values.get(COPIED_FROM), values.get(COMMITTED_BY)
    return OffsetMark(
        int(time) if time is not None and _TIME.fullmatch(time) else timestamp,
        None if origin is None else Origin.parse(origin.decode(errors="replace")),
        None if author is None else CommitAuthor.parse(author.decode(errors="replace")),
        frozenset(map(Origin.parse, values.get(FORMER_TOPICS, b"").decode(errors="replace").split())),
    )
