"""Maps columns of a row to key, topic, timestamp and headers of the row's record.

Every source of rows uses this module. `define_record_columns` adds the properties to the source's configuration; a
source that defines topics itself uses `define_row_columns` instead. `RecordColumns` makes the records.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.errors import ConfigError
from fencepost.api.time_texts import time_texts
from fencepost.api.topic_names import topic_name
from fencepost.config.validators import blame
from fencepost.connectors.rows.row_types import MisfitError, ddl_of_columns

TOPIC: Final = "topic"
TOPIC_COLUMN: Final = "topic.column"
KEY_COLUMNS: Final = "key.columns"
TIMESTAMP_COLUMN: Final = "timestamp.column"
TIMESTAMP_FORMAT: Final = "timestamp.format"
HEADERS_COLUMNS: Final = "headers.columns"
RECORD_PROPERTIES: Final = (TOPIC, TOPIC_COLUMN, KEY_COLUMNS, TIMESTAMP_COLUMN, TIMESTAMP_FORMAT, HEADERS_COLUMNS)

_TOPIC_NAME: Final = r"\A(?:[a-zA-Z0-9._-]{3,249}|\.?[a-zA-Z0-9_-]\.?|[a-zA-Z0-9_-]{2})\z"
"""The topic names that Kafka accepts. The names "." and ".." are invalid."""

_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")
_NUMBER: Final = re.compile(r"[0-9]+")
_ZONE: Final = r"\s*(?:Z|[+-]\d{2}(?::?\d{2})?)\s*$"
_OVERFLOW_DAYS: Final = 3
"""The latest day of a month that strptime returns for a date that does not exist: it reads 31 February as 3 March."""
_SOME_TIME: Final = datetime(2026, 11, 22, 13, 14, 15, tzinfo=UTC)
_TIMES: Final = (t.TimestampType, t.TimestampNTZType, t.DateType, t.LongType)
_NESTED: Final = (t.StructType, t.ArrayType, t.MapType)
_HEADER_TYPE: Final = t.ArrayType(
    t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.StringType())])
)


def _topic_of_columns(name: str, value: Any) -> None:
    """Raise ConfigError for an invalid topic name. The name may contain columns, as in orders-${region}."""
    try:
        topic_name(name, None if value is None else _PLACEHOLDER.sub("x", value))
    except ConfigError as error:
        raise ConfigError(
            f"Invalid value {value!r} for the property {name}: {str(error).partition(': ')[2]}; a column is a part of it as "
            "in orders-${region}",
            name=name,
        ) from None


def define_record_columns(definitions: ConfigDef, *, keys: Sequence[str] = ()) -> ConfigDef:
    """Define the properties, including the topic. `keys` is the default of key.columns."""
    return define_row_columns(
        definitions.define(
            TOPIC, ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, ConfigDef.Importance.HIGH,
            "The topic to write the rows to. Its name may contain values of columns, as in orders-${region}.",
            validator=_topic_of_columns,
        ),
        keys=keys,
    )  # fmt: skip


def define_row_columns(definitions: ConfigDef, *, keys: Sequence[str] = ()) -> ConfigDef:
    """Define the properties that name columns. `keys` is the default of key.columns."""
    text, lists = ConfigDef.Type.STRING, ConfigDef.Type.LIST
    medium, low = ConfigDef.Importance.MEDIUM, ConfigDef.Importance.LOW
    return definitions.define(
        TOPIC_COLUMN, text, None, low,
        "A column with the topic of each row: a STRING, or a whole number. If the column is null, the row goes to the "
        "topic that it would have without this property.",
    ).define(
        KEY_COLUMNS, lists, keys, medium,
        "The columns that become the record's key: one column as its value, several as a struct. Without columns the "
        "key is null.",
    ).define(
        TIMESTAMP_COLUMN, text, None, medium,
        "The column that becomes the record's timestamp: a TIMESTAMP, TIMESTAMP_NTZ (as UTC), DATE, BIGINT "
        "(milliseconds since 1970), or a STRING with timestamp.format. If it is null, the timestamp is the time of "
        "sending.",
    ).define(
        TIMESTAMP_FORMAT, text, None, low,
        "The format of a timestamp.column of type STRING, in the directives of Python's strptime, for example "
        "%d/%m/%Y %H:%M:%S. Times are in UTC.",
    ).define(
        HEADERS_COLUMNS, lists, "", low,
        "The columns that also become headers of the record: a header has the column's name, and its value as text.",
    )  # fmt: skip


def validate_columns(values: list[ConfigValue]) -> list[ConfigValue]:
    """Add the errors of properties that contradict each other."""
    parsed = {value.name: value.value for value in values}
    blame(values, lambda: RecordColumns.from_values(parsed), RECORD_PROPERTIES)
    return values


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The columns of a row that define the parts of its record; the value is the whole row.

    `topic` has the parts of the topic's name: pairs of a text and the column that follows it, or None if no column
    follows. It is empty if no column is part of the name. With `topic_may_be_null`, the connector's topic is used if a
    column is null.
    """

    keys: tuple[str, ...] = ()
    topic: tuple[tuple[str, str | None], ...] = ()
    topic_may_be_null: bool = False
    timestamp: str | None = None
    timestamp_format: str | None = None
    headers: tuple[str, ...] = ()

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> RecordColumns:
        """Read the parsed values of the properties. Raises ConfigError if they contradict each other."""
        column, parts = values[TOPIC_COLUMN] or None, _parts(values.get(TOPIC, ""))
        if parts and column:
            raise ConfigError(
                f"The property {TOPIC_COLUMN} names the topic's column, and {TOPIC} has a column in its name: remove one",
                name=TOPIC_COLUMN,
            )
        if values[TIMESTAMP_FORMAT] and not values[TIMESTAMP_COLUMN]:
            raise ConfigError(
                f"The property {TIMESTAMP_FORMAT} has no effect without {TIMESTAMP_COLUMN}", name=TIMESTAMP_FORMAT
            )
        if values[TIMESTAMP_FORMAT]:
            _check_format(values[TIMESTAMP_FORMAT])
        _check_once(KEY_COLUMNS, values[KEY_COLUMNS])
        _check_once(HEADERS_COLUMNS, values[HEADERS_COLUMNS])
        return cls(
            keys=tuple(values[KEY_COLUMNS]),
            topic=(("", column),) if column else parts,
            topic_may_be_null=column is not None,
            timestamp=values[TIMESTAMP_COLUMN] or None,
            timestamp_format=values[TIMESTAMP_FORMAT] or None,
            headers=tuple(values[HEADERS_COLUMNS]),
        )

    def check(self, schema: t.StructType) -> None:
        """Raise ConfigError for a column that the schema does not contain, or that has a wrong type."""
        self.check_names(schema.names)
        self.check_types(schema)

    def check_names(self, names: Collection[str]) -> None:
        """Raise ConfigError for a column that is not among the names."""
        for property_name, column in self._named:
            if column not in names:
                raise ConfigError(
                    f"The property {property_name} names {column!r}, which is not a column; there are: {', '.join(names)}",
                    name=property_name,
                )

    @property
    def _named(self) -> Iterator[tuple[str, str]]:
        """The properties that name columns, each with one of its columns."""
        yield from ((KEY_COLUMNS, name) for name in self.keys)
        yield from ((HEADERS_COLUMNS, name) for name in self.headers)
        topic = TOPIC_COLUMN if self.topic_may_be_null else TOPIC
        yield from ((topic, name) for _, name in self.topic if name is not None)
        if self.timestamp is not None:
            yield TIMESTAMP_COLUMN, self.timestamp

    def check_types(self, schema: t.StructType) -> None:
        """Raise ConfigError for a column whose type cannot become a topic, timestamp or header."""
        for name in self.headers:
            if isinstance(schema[name].dataType, (*_NESTED, t.BinaryType, t.DayTimeIntervalType)):
                raise _wrong_type(HEADERS_COLUMNS, name, schema, "a simple type")
        for _, part in self.topic:
            of = TOPIC_COLUMN if self.topic_may_be_null else TOPIC
            if part is not None and not isinstance(schema[part].dataType, t.StringType | t.IntegralType):
                raise _wrong_type(of, part, schema, "a STRING or a whole number")
        if self.timestamp is not None:
            given = schema[self.timestamp].dataType
            if self.timestamp_format is not None and not isinstance(given, t.StringType):
                raise _wrong_type(TIMESTAMP_FORMAT, self.timestamp, schema, "a STRING")
            if self.timestamp_format is None and not isinstance(given, _TIMES):
                raise _wrong_type(
                    TIMESTAMP_COLUMN,
                    self.timestamp,
                    schema,
                    f"a TIMESTAMP, DATE or BIGINT, or a STRING with {TIMESTAMP_FORMAT}",
                )

    def ddl(self, schema: t.StructType) -> str:
        """Return the DDL of the records. `schema` is the schema of the rows."""
        columns = [t.StructField("value", schema, nullable=False)]
        if self.keys:
            fields = [schema[name] for name in self.keys]
            columns.append(t.StructField("key", fields[0].dataType if len(fields) == 1 else t.StructType(fields)))
        if self.topic:
            columns.append(t.StructField("topic", t.StringType()))
        if self.timestamp is not None:
            columns.append(t.StructField("timestamp", t.LongType()))
        if self.headers:
            columns.append(t.StructField("headers", _HEADER_TYPE))
        return ddl_of_columns(columns)

    def records(self, schema: t.StructType, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return rows as records. Raises MisfitError for a row without a topic or without a timestamp."""
        fields = [
            pa.field(field.name, array.type, field.nullable)
            for field, array in zip(schema.fields, columns, strict=True)
        ]
        by_name = dict(zip(schema.names, columns, strict=True))
        records = {"value": pa.StructArray.from_arrays(columns, fields=fields)}
        if len(self.keys) == 1:
            records["key"] = by_name[self.keys[0]]
        elif self.keys:
            picked = [fields[schema.names.index(name)] for name in self.keys]
            records["key"] = pa.StructArray.from_arrays([by_name[name] for name in self.keys], fields=picked)
        return pa.record_batch(records | self.attributes(by_name))

    def attributes(self, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Return the topics (STRING), timestamps (BIGINT) and headers of rows, as far as columns define them.

        Raises MisfitError for a row without a topic or without a timestamp.
        """
        made: dict[str, pa.Array] = {}
        if self.topic:
            made["topic"] = self._topics(columns)
        if self.timestamp is not None:
            made["timestamp"] = self._timestamps(columns[self.timestamp])
        if self.headers:
            made["headers"] = _headers(self.headers, columns)
        return made

    def _topics(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        parts: list[Any] = []
        for text, name in self.topic:
            parts.append(pa.scalar(text))
            if name is not None:
                parts.append(columns[name].cast(pa.string()))
        topics = pc.binary_join_element_wise(*parts, pa.scalar(""))
        valid = pc.fill_null(pc.match_substring_regex(topics, _TOPIC_NAME), self.topic_may_be_null)
        if not pc.all(valid, min_count=0).as_py():
            names = ", ".join(name for _, name in self.topic if name is not None)
            first = pc.filter(topics, pc.invert(valid))[0].as_py()
            problem = (
                "is null, so that there is no topic"
                if first is None
                else f"makes {first!r}, which is not a name of a topic"
            )
            raise MisfitError(f"column {names} {problem}")
        return topics

    def _timestamps(self, values: pa.Array) -> pa.Array:
        if self.timestamp_format is not None:
            try:
                values = _instants(values, self.timestamp_format)
            except pa.ArrowInvalid as error:
                raise MisfitError(f"column {self.timestamp} does not have {TIMESTAMP_FORMAT}: {error}") from None
        is_number = pa.types.is_integer(values.type)
        numbers = values if is_number else self._microseconds(values).cast(pa.int64())
        if (pc.min(numbers).as_py() or 0) < 0:
            raise MisfitError(f"column {self.timestamp}: a record cannot have a timestamp before 1970")
        return numbers if is_number else pc.divide(numbers, 1_000)

    def _microseconds(self, values: pa.Array) -> pa.Array:
        try:
            # Nanoseconds are cut off, as they are for times in files.
            floored = pc.floor_temporal(values, unit="microsecond") if values.type == pa.timestamp("ns") else values
            return floored.cast(pa.timestamp("us"))
        except pa.ArrowInvalid as error:
            raise MisfitError(f"column {self.timestamp}: {error}") from None


def _instants(texts: pa.Array, form: str) -> pa.Array:
    """Parse texts in a format as timestamps in UTC.

    Raises pyarrow.ArrowInvalid for a text that does not match the format.

    strptime reads 31/02 as 03/03, so a date at the start of a month is compared with its text.
    """
    instants = pc.strptime(texts, format=form, unit="us")
    if form.endswith("%z"):
        # The day in UTC may differ from the day in the text, so the dates are checked in the texts without their zones.
        _instants(pc.replace_substring_regex(texts, _ZONE, ""), form.removesuffix("%z").rstrip())
        return instants
    # strftime does not write %s as strptime reads it, so the texts cannot be compared.
    if "%s" in form:
        return instants
    early = pc.fill_null(pc.less_equal(pc.day(instants), _OVERFLOW_DAYS), fill_value=False)
    given = pc.filter(texts, early)
    written = pc.strftime(pc.filter(instants, early).cast(pa.timestamp("s")), format=form)
    other = pc.not_equal(given, written)
    for text, again in zip(pc.filter(given, other).to_pylist(), pc.filter(written, other).to_pylist(), strict=True):
        numbers = _numbers(text)
        # strptime reads a leap second as the next minute.
        if numbers != _numbers(again) and 60 not in numbers:
            raise pa.ArrowInvalid(f"{text!r} is not a date")
    return instants


def _numbers(text: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(text)]


def _check_format(form: str) -> None:
    """Raise ConfigError for a format that cannot represent a time."""
    if "%z" in form.removesuffix("%z"):
        raise ConfigError(
            f"Invalid value {form!r} for the property {TIMESTAMP_FORMAT}: %z must be at its end", name=TIMESTAMP_FORMAT
        )
    try:
        pc.strptime([_SOME_TIME.strftime(form)], format=form, unit="us")
    except (pa.ArrowInvalid, ValueError) as error:
        raise ConfigError(
            f"Invalid value {form!r} for the property {TIMESTAMP_FORMAT}: a time that is written in it cannot be read "
            f"({error}). It takes what strptime of C has: %Y, %m, %d, %H, %M, %S, but no %f for fractions of a second",
            name=TIMESTAMP_FORMAT,
        ) from None


def _parts(topic: str) -> tuple[tuple[str, str | None], ...]:
    parts: list[tuple[str, str | None]] = []
    end = 0
    for place in _PLACEHOLDER.finditer(topic):
        parts.append((topic[end : place.start()], place[1]))
        end = place.end()
    return (*parts, (topic[end:], None)) if parts else ()


def _check_once(property_name: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise ConfigError(f"The property {property_name} names a column twice: {', '.join(names)}", name=property_name)


def _wrong_type(property_name: str, name: str, schema: t.StructType, wanted: str) -> ConfigError:
    return ConfigError(
        f"The property {property_name} needs {wanted}, but the column {name} is of type "
        f"{schema[name].dataType.simpleString().upper()}",
        name=property_name,
    )


def _text(values: pa.Array) -> pa.Array:
    is_time = pa.types.is_date(values.type) or pa.types.is_timestamp(values.type)
    return time_texts(values) if is_time else values.cast(pa.string())


def _headers(names: Sequence[str], columns: Mapping[str, pa.Array]) -> pa.Array:
    count, rows = len(names), len(columns[names[0]])
    by_column = pa.concat_arrays([_text(columns[name]) for name in names])
    # The values of all rows, in the order of the rows.
    values = by_column.take(pa.array(np.arange(count * rows).reshape(count, rows).T.ravel()))
    keys = pa.array(list(names) * rows, pa.string())
    offsets = pa.array(np.arange(0, count * rows + 1, count, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([keys, values], names=["key", "value"]))
