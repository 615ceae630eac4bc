"""Dead letters: refused records, as they are written to `errors.deadletterqueue.topic.name`.

The headers have the names of Connect's dead letter queue for sinks (KIP-298), but with a record's source partition and
source offset in place of its topic partition and offset. All headers are UTF-8 texts:

    __connect.errors.topic                    the topic that the record was for
    __connect.errors.connector.name           the connector
    __connect.errors.task.id                  the number of the task
    __connect.errors.stage                    TASK_POLL if the record could not be read, else the stage that refused it
    __connect.errors.class.name               the reader, transform or converter
    __connect.errors.exception.class.name     the kind of error
    __connect.errors.exception.message        what was wrong
    __connect.errors.exception.stacktrace     Java's trace, if a plugin in Java refused it
    __connect.errors.file, .position, .line   its place in a file: the position and line of its first byte
    __connect.errors.source.partition,        JSON; only for a record that was polled as a SourceRecord
    __connect.errors.source.offset

Executors send dead letters to the worker, which writes them into the same transaction after the batch's other records.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from fencepost.api.own_pipeline import RefusedByPipeline
from fencepost.api.record import RefusedRow, SourceRecord
from fencepost.api.time_texts import plain_value
from fencepost.engine.refused_records import Stage
from fencepost.kafka.records.columns import HEADERS, Records

PREFIX: Final = "__connect.errors."

MESSAGE_LIMIT: Final = 2_000
"""The maximum number of characters of an exception's message in a header."""

TRACE_LIMIT: Final = 16_000
"""The maximum number of characters of a trace in a header."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused record: its bytes, and its headers, without the headers that are the same for all records of a task.

    `row` is the number of the row from which transforms made the record, if the worker still has to look up that row.
    """

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, str], ...]
    row: int | None = None

    @classmethod
    def of_row(cls, row: RefusedRow, reader: str, topic: str | None) -> DeadLetter:
        """Return the dead letter for an item of a source that is not a row, such as a malformed line."""
        headers = _headers(Stage.TASK_POLL, reader, topic, "DataError", row.reason)
        place = tuple((PREFIX + name, str(text)) for name, text in row.place.items())
        return cls(row.raw, None, headers + place)

    @classmethod
    def of_record(
        cls, content: object, stage: Stage, plugin: str, topic: str | None, *, cause: tuple[Exception, str]
    ) -> DeadLetter:
        """Return the dead letter for a record that a transform or converter refused.

        `content` is a SourceRecord, or a row with the columns of a SourceBatch. `cause` is the error and its message.
        """
        reason, message = cause
        headers = _headers(stage, plugin, topic, type(reason).__name__, message)
        if isinstance(content, SourceRecord):
            origin = _origin(content.source_partition, content.source_offset)
            value = content.value.raw if isinstance(content.value, RefusedRow) else content.value
            return cls(plain_bytes(value), plain_bytes(content.key), headers + origin)
        return cls(None, None, headers).with_content(content)

    @classmethod
    def of_pipeline(cls, refused: RefusedByPipeline) -> DeadLetter:
        """Return the dead letter for a record that the connector's own pipeline refused."""
        headers = _headers(Stage(refused.stage), refused.plugin, refused.topic, refused.exception, refused.message)
        trace = (f"{PREFIX}exception.stacktrace", refused.trace[:TRACE_LIMIT])
        origin = _origin(refused.source_partition, refused.source_offset)
        return cls(refused.value, refused.key, (*headers, trace, *origin))

    def with_content(self, content: object) -> DeadLetter:
        """Return this dead letter with the bytes of `content`, a row with the columns of a SourceBatch."""
        columns = content if isinstance(content, Mapping) else {"value": content}
        return DeadLetter(plain_bytes(columns.get("value")), plain_bytes(columns.get("key")), self.headers)

    @property
    def size(self) -> int:
        """The approximate number of bytes of the dead letter."""
        return len(self.value or b"") + len(self.key or b"") + sum(len(text) for _, text in self.headers)

    def to_json(self) -> list[Any]:
        """Return this dead letter as JSON data, for a report."""
        return [_text(self.value), _text(self.key), list(self.headers), self.row]

    @classmethod
    def from_json(cls, found: Any) -> DeadLetter:
        """Parse the result of `to_json`. Raises TypeError or ValueError for other data."""
        value, key, headers, row = found
        pairs = tuple((name, text) for name, text in headers)
        if not all(isinstance(part, str) for pair in pairs for part in pair):
            raise TypeError("a header of a dead letter is not text")
        return cls(_bytes(value), _bytes(key), pairs, row)


def letter_records(letters: Sequence[DeadLetter], task: str) -> Records:
    """Return dead letters as records.

    `task` is the connector's name and the task's number, with a hyphen between them.
    """
    connector, _, number = task.rpartition("-")
    of_task = [(PREFIX + "connector.name", connector), (PREFIX + "task.id", number)]
    headers = [
        [{"key": name, "value": text.encode(errors="replace")} for name, text in (*of_task, *letter.headers)]
        for letter in letters
    ]
    keys = pa.array([letter.key for letter in letters], pa.binary())
    return Records(
        pa.array([letter.value for letter in letters], pa.binary()),
        None if keys.null_count == len(keys) else keys,
        None,
        pa.array(headers, HEADERS),
    )


def contents_of(rows: pa.RecordBatch | pa.Table) -> Sequence[object]:
    """Return rows as dicts of their columns.

    Maps are dicts, as in polled records. Values that Python cannot hold are returned as `plain_value` returns them.
    """
    try:
        found: Sequence[object] = rows.to_pylist(maps_as_pydicts="lossy")
    except (TypeError, ValueError, OverflowError):
        columns = [[_content(value) for value in column] for column in rows.columns]
        found = [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def _content(value: pa.Scalar) -> object:
    """Return a value with its maps as dicts, or the result of `plain_value`.

    `plain_value` is used if a key cannot be in a dict, or if a time is beyond Python's range.
    """
    try:
        found: object = value.as_py(maps_as_pydicts="lossy")
    except (TypeError, ValueError, OverflowError):
        found = plain_value(value)
    return found


def plain_bytes(value: object) -> bytes | None:
    """Return a value as bytes without a converter: bytes and texts unchanged, any other value as JSON."""
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return (value if isinstance(value, str) else _json(value)).encode(errors="backslashreplace")


def _json(value: object) -> str:
    try:
        return _COMPACT.encode(value)
    except ValueError:
        # The value contains a number that JSON cannot represent, or a list that contains itself.
        pass
    except (TypeError, RecursionError):
        return repr(value)
    try:
        return _COMPACT.encode(_finite(value))
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _finite(value: object) -> object:
    """Return a value with NaN and the infinities as the texts that JsonConverter writes."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value


def _plain(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return str(value)


_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)


def _headers(stage: Stage, plugin: str, topic: str | None, kind: str, message: str) -> tuple[tuple[str, str], ...]:
    texts = {
        "topic": topic, "stage": str(stage), "class.name": plugin, "exception.class.name": kind,
        "exception.message": message[:MESSAGE_LIMIT],
    }  # fmt: skip
    return tuple((PREFIX + name, text) for name, text in texts.items() if text is not None)


def _origin(partition: Mapping[str, Any], offset: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    origin = {"source.partition": partition, "source.offset": offset}
    return tuple((PREFIX + name, _json(dict(part))) for name, part in origin.items())


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
