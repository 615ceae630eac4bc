"""The messages of Connect's workers as bytes: the embedded protocol of group type `connect`.

Version 0 is eager rebalancing, version 1 is KIP-415 (incremental cooperative rebalancing), version 2 is KIP-507, which
only declares that requests between workers are signed. All integers are big-endian:

    STRING           int16 length, UTF-8            BYTES   int32 length (-1 is null)       [x]   int32 count (-1 is none)
    Metadata 0       int16 version | STRING url | int64 configOffset
    Metadata 1, 2    as 0, then BYTES allocation, an Assignment: what the member runs; null if it runs nothing
    Assignment 0     int16 version | int16 error | STRING leader member id | STRING leader url | int64 configOffset
                     | [STRING connector, [int32 task]], where task -1 is the connector itself
    Assignment 1, 2  as 0, then [STRING connector, [int32 task]] revoked | int32 delay in ms

Bytes after these fields are ignored, by Connect's workers too, so that a later version may add fields. fencepost's
workers add fields that Connect does not have, each after the marker `FNCP`:

    Metadata         STRING exactly.once.source.support of the member
                     then after `FNCT` Topics: STRING offset, config and status.storage.topic of the member
                     then after `FNCF` Files: STRING working directory, [STRING allowed path], where -1 allows all
    Assignment       [STRING url, STRING exactly.once.source.support] of all members, empty if unknown
                     then after `FNCT` Topics of the leader | [STRING url, Topics] of members with other topics
                     then after `FNCF` [STRING url, Files] of all members, if their files differ
                     If these fields have 1,024 bytes or more, `FNCZ` and BYTES replace them: all fields from `FNCP`
                     on, compressed as zlib (RFC 1950).

The coordinator stores all assignments in one record, and each assignment lists all members. So without zlib, the
record's size would grow with the square of the number of members. Small groups do not use zlib, so that earlier
versions of fencepost can read the fields.

Connect's workers read a message of version 0 with the fields of version 1, which may be missing at its end. So a
message of version 0 with a marker has the fields of version 1 before the marker. They are empty: no allocation, no
revocations, no delay.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from fencepost.config.ids import ConnectorTaskId
from fencepost.kafka.errors import GroupProtocolError
from fencepost.kafka.group.protocol import (
    UNKNOWN_FILES,
    UNKNOWN_TOPICS,
    Assignment,
    ConnectProtocol,
    WorkerFiles,
    WorkerMetadata,
    WorkerTopics,
)

_MARK: Final = b"FNCP"
_TOPICS_MARK: Final = b"FNCT"
_FILES_MARK: Final = b"FNCF"
_DEFLATED_MARK: Final = b"FNCZ"
_WORTH_DEFLATING: Final = 1_024
"""The fields about the members of a group are compressed if they have at least this many bytes."""

_MOST_INFLATED: Final = 1 << 22
"""The maximum number of bytes of the fields about members after decompression.

Anybody with the right to join a group can send an assignment. Reading this many bytes takes a second, and no heartbeat
is sent meanwhile.
"""

_NO_ALLOCATION: Final = b"\xff\xff\xff\xff"
_NO_CHANGE: Final = bytes(8)
"""An empty array of revocations, and a delay of zero."""
_CONNECTOR_ITSELF: Final = -1

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_int16, _int32, _int64 = _INT16.pack, _INT32.pack, _INT64.pack
_NULL: Final = -1


def encode_metadata(metadata: WorkerMetadata, protocol: ConnectProtocol) -> bytes:
    """Return the metadata of a member as bytes, for one of the protocols that it offers."""
    encoded = _int16(protocol.version) + _string(metadata.url) + _int64(metadata.config_offset)
    added = _MARK + _string(metadata.support) if metadata.support or any(metadata.topics) else b""
    if any(metadata.topics):
        added += _TOPICS_MARK + _topics(metadata.topics)
    if metadata.files.directory:
        added += _FILES_MARK + _files(metadata.files)
    if protocol is ConnectProtocol.EAGER:
        return encoded + (_NO_ALLOCATION + added if added else b"")
    if metadata.assignment is None:
        return encoded + _NO_ALLOCATION + added
    allocation = encode_assignment(metadata.assignment, protocol)
    return encoded + _int32(len(allocation)) + allocation + added


def decode_metadata(data: bytes) -> WorkerMetadata:
    """Read the metadata of a member. Raises GroupProtocolError."""
    reader = _Reader(data, "metadata of a worker")
    version = reader.version()
    url, config_offset = reader.string(), reader.int64()
    allocation = reader.nullable_bytes() if version > 0 else None
    # The other fields of an assignment are not needed here, and may be large.
    assignment = _work_of(_Reader(allocation, "the work of a worker"))[0] if allocation else None
    support, topics, files = "", UNKNOWN_TOPICS, UNKNOWN_FILES
    if reader.marked(_MARK if version > 0 else _NO_ALLOCATION + _MARK):
        support = reader.string()
        topics = reader.topics() if reader.marked(_TOPICS_MARK) else UNKNOWN_TOPICS
        files = reader.files() if reader.marked(_FILES_MARK) else UNKNOWN_FILES
    return WorkerMetadata(
        url=url, config_offset=config_offset, assignment=assignment, support=support, topics=topics, files=files
    )


def encode_assignment(assignment: Assignment, protocol: ConnectProtocol) -> bytes:
    """Return the assignment of a member as bytes. In `default`, it has no revocations and no delay."""
    encoded = (
        _int16(protocol.version)
        + _int16(assignment.error)
        + _string(assignment.leader)
        + _string(assignment.leader_url)
        + _int64(assignment.config_offset)
        + _work(assignment.connectors, assignment.tasks)
    )
    if protocol is not ConnectProtocol.EAGER:
        encoded += _work(assignment.revoked_connectors, assignment.revoked_tasks) + _int32(assignment.delay_ms)
    if assignment.supports:
        encoded += _NO_CHANGE if protocol is ConnectProtocol.EAGER else b""
        encoded += _of_members(assignment.supports, assignment.leader_topics, assignment.other_topics, assignment.files)
    return encoded


# The result is the same for all assignments of a rebalance.
@lru_cache(maxsize=1)
def _of_members(
    supports: tuple[tuple[str, str], ...],
    leader_topics: WorkerTopics,
    other_topics: tuple[tuple[str, WorkerTopics], ...],
    files: tuple[tuple[str, WorkerFiles], ...],
) -> bytes:
    """Return the fields of an assignment that Connect does not have, compressed if that is worthwhile."""
    pairs = (_string(url) + _string(support) for url, support in supports)
    encoded = _MARK + _int32(len(supports)) + b"".join(pairs)
    if any(leader_topics):
        others = (_string(url) + _topics(topics) for url, topics in other_topics)
        encoded += _TOPICS_MARK + _topics(leader_topics) + _int32(len(other_topics)) + b"".join(others)
    if files:
        members = (_string(url) + _files(of_member) for url, of_member in files)
        encoded += _FILES_MARK + _int32(len(files)) + b"".join(members)
    if len(encoded) < _WORTH_DEFLATING:
        return encoded
    deflated = zlib.compress(encoded, zlib.Z_BEST_COMPRESSION)
    return _DEFLATED_MARK + _int32(len(deflated)) + deflated


def decode_assignment(data: bytes) -> Assignment:
    """Read the assignment of a member. Raises GroupProtocolError."""
    reader = _Reader(data, "an assignment")
    work, version = _work_of(reader)
    before = b"" if version > 0 else _NO_CHANGE
    if reader.marked(before + _DEFLATED_MARK):
        before, reader = b"", reader.inflated()
    supports = reader.pairs() if reader.marked(before + _MARK) else ()
    tells_topics = bool(supports) and reader.marked(_TOPICS_MARK)
    return replace(
        work,
        supports=supports,
        leader_topics=reader.topics() if tells_topics else UNKNOWN_TOPICS,
        other_topics=reader.topics_by_url() if tells_topics else (),
        files=reader.files_by_url() if supports and reader.marked(_FILES_MARK) else (),
    )


def _work_of(reader: _Reader) -> tuple[Assignment, int]:
    """Read the fields that Connect has, and return them with the version."""
    version = reader.version()
    error, leader, leader_url, config_offset = reader.int16(), reader.string(), reader.string(), reader.int64()
    connectors, tasks = reader.work()
    revoked_connectors, revoked_tasks = reader.work() if version > 0 else ((), ())
    return Assignment(
        error=error,
        leader=leader,
        leader_url=leader_url,
        config_offset=config_offset,
        connectors=connectors,
        tasks=tasks,
        revoked_connectors=revoked_connectors,
        revoked_tasks=revoked_tasks,
        delay_ms=reader.int32() if version > 0 else 0,
    ), version


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _int16(len(encoded)) + encoded


def _topics(topics: WorkerTopics) -> bytes:
    return b"".join(map(_string, topics))


def _files(files: WorkerFiles) -> bytes:
    count = _NULL if files.paths is None else len(files.paths)
    return _string(files.directory) + _int32(count) + b"".join(map(_string, files.paths or ()))


# The work of a member is the same in all protocols that it offers.
@lru_cache(maxsize=2)
def _work(connectors: tuple[str, ...], tasks: tuple[ConnectorTaskId, ...]) -> bytes:
    numbers = _by_connector(connectors, tasks)
    entries = (
        _string(connector) + struct.pack(f">{len(of_connector) + 1}i", len(of_connector), *of_connector)
        for connector, of_connector in numbers.items()
    )
    return _int32(len(numbers)) + b"".join(entries)


def _by_connector(connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]) -> Mapping[str, list[int]]:
    numbers: dict[str, list[int]] = {connector: [_CONNECTOR_ITSELF] for connector in connectors}
    for task in tasks:
        numbers.setdefault(task.connector, []).append(task.task)
    return numbers


class _Reader:
    """Reads one field after the other."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise GroupProtocolError(self._what, f"its version is {version}")
        return version

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        try:
            return self._take(self.int16()).decode()
        except UnicodeDecodeError as error:
            raise GroupProtocolError(self._what, f"text that is not UTF-8 before byte {self._at}") from error

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length == _NULL else self._take(length)

    def work(self) -> tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]:
        connectors: list[str] = []
        tasks: list[ConnectorTaskId] = []
        for _ in range(self._count()):
            connector = self.string()
            for number in self._int32s(self._count()):
                if number == _CONNECTOR_ITSELF:
                    connectors.append(connector)
                else:
                    tasks.append(ConnectorTaskId(connector, number))
        return tuple(connectors), tuple(tasks)

    def marked(self, mark: bytes) -> bool:
        """Skip the bytes `mark` if they come next, and return whether they did. They precede fencepost's own fields."""
        found = self._data.startswith(mark, self._at)
        self._at += len(mark) if found else 0
        return found

    def inflated(self) -> _Reader:
        """Return a reader of the compressed bytes that come next."""
        inflater = zlib.decompressobj()
        try:
            data = inflater.decompress(self._take(self.int32()), _MOST_INFLATED)
        except zlib.error as error:
            raise GroupProtocolError(self._what, f"its list of members cannot be decompressed ({error})") from error
        if not inflater.eof:
            raise GroupProtocolError(
                self._what, f"its list of members is cut off, or has more than {_MOST_INFLATED:,} bytes"
            )
        return _Reader(data, self._what)

    def pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple((self.string(), self.string()) for _ in range(self._count()))

    def topics(self) -> WorkerTopics:
        return WorkerTopics(offset=self.string(), config=self.string(), status=self.string())

    def topics_by_url(self) -> tuple[tuple[str, WorkerTopics], ...]:
        return tuple((self.string(), self.topics()) for _ in range(self._count()))

    def files(self) -> WorkerFiles:
        directory, count = self.string(), self.int32()
        return WorkerFiles(directory, None if count == _NULL else tuple(self.string() for _ in range(count)))

    def files_by_url(self) -> tuple[tuple[str, WorkerFiles], ...]:
        return tuple((self.string(), self.files()) for _ in range(self._count()))

    def _count(self) -> int:
        return max(0, self.int32())

    def _number(self, form: struct.Struct) -> int:
        number: int = form.unpack_from(self._data, self._skip(form.size))[0]
        return number

    def _int32s(self, count: int) -> tuple[int, ...]:
        return struct.unpack_from(f">{count}i", self._data, self._skip(count * _INT32.size))

    def _take(self, length: int) -> bytes:
        start = self._skip(length)
        return self._data[start : self._at]

    def _skip(self, length: int) -> int:
        """Skip some bytes, and return their position."""
        start, end = self._at, self._at + length
        if length < 0 or end > len(self._data):
            raise GroupProtocolError(self._what, f"{length} bytes are announced at byte {start} and do not follow")
        self._at = end
        return start
