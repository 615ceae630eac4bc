"""The properties of FileSource, and settings that are derived from several properties."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from pyspark.sql.types import StructField, StructType

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.ddl import parse_columns
from fencepost.api.errors import ConfigError
from fencepost.config.config_transformer import without_placeholders
from fencepost.config.validators import at_least, one_of
from fencepost.connectors.files.content.codecs.foreign_content import UTF_8
from fencepost.connectors.files.content.growing import DEFAULT_BATCH_BYTES
from fencepost.connectors.files.discovery.ended import AfterEnd
from fencepost.connectors.files.discovery.find import FILES, ORDERS, reads_directory
from fencepost.connectors.files.formats.csv_reader import Dialect, check_csv_columns
from fencepost.connectors.files.formats.inference import infer_csv, infer_json
from fencepost.connectors.files.formats.jsonl_reader import check_json_columns
from fencepost.connectors.files.formats.tables.avro_table import check_avro_is_installed
from fencepost.connectors.files.formats.tables.table import TableFormat
from fencepost.connectors.files.stores.objects import is_object
from fencepost.connectors.rows.record_mapping import (
    HEADERS_COLUMNS,
    KEY_COLUMNS,
    TIMESTAMP_COLUMN,
    TIMESTAMP_FORMAT,
    TOPIC,
    TOPIC_COLUMN,
    RecordColumns,
    define_record_columns,
)
from fencepost.connectors.rows.row_types import relaxed

POLL_INTERVAL = "files.poll.interval.ms"
SETTLE = "files.settle.ms"
ORDER = "files.order"
AFTER_END = "files.after.end"
MOVE_TO = "files.move.to"
FORMAT = "format"
SCHEMA = "schema"
HEADER = "header"
DELIMITER = "delimiter"
QUOTE = "quote"
ESCAPE = "escape"
NULL_VALUE = "null.value"
EXTRA_COLUMNS = "header.extra.columns"
CASE_SENSITIVE = "header.case.sensitive"
ENCODING = "encoding"
BATCH_BYTES = "batch.bytes"
TASK_SCHEMA = "task.schema"

INFER = "infer"
"""With this value of the property `schema`, the connector infers the columns from a file."""

COLUMN_PROPERTIES = (
    FORMAT, SCHEMA, HEADER, DELIMITER, QUOTE, ESCAPE, ENCODING,
    TOPIC, TOPIC_COLUMN, KEY_COLUMNS, TIMESTAMP_COLUMN, TIMESTAMP_FORMAT, HEADERS_COLUMNS,
)  # fmt: skip
"""The properties that `declared_columns` needs."""

FORMATS = ("csv", "jsonl", "text", *TableFormat)
_BLANKS: Final = {"\t": "\\t", " ": "\\u0020"}
"""Blank characters that may be a delimiter, with the way to write them in properties files and JSON."""


def _check_not_empty(name: str, value: Any) -> None:
    if not any(value):
        raise ConfigError(f"The property {name} is empty: name a file", name=name)


def _check_delimiter(name: str, value: Any) -> None:
    if delimiter_of(value) is None:
        raise ConfigError(
            f"Invalid value {value!r} for the property {name}: it must be one ASCII character other than a quote, or "
            "\\t for a tab, \\u0020 for a space",
            name=name,
        )


def delimiter_of(value: str) -> str | None:
    """Return the delimiter that a value of the property `delimiter` names, None if the value is invalid."""
    character = next((blank for blank, name in _BLANKS.items() if name == value), value)
    return character if len(character) == 1 and character.isascii() and character not in '"\r\n\0' else None


def _check_quote_character(name: str, value: Any) -> None:
    if value and (len(value) > 1 or not value.isascii() or value in "\r\n\0"):
        raise ConfigError(
            f"Invalid value {value!r} for the property {name}: it must be one ASCII character, or empty for none",
            name=name,
        )


def dialect_of(parsed: Mapping[str, Any]) -> Dialect:
    """Return the special characters of CSV files. Raises ConfigError if two of them are the same."""
    delimiter, quote = cast("str", delimiter_of(parsed[DELIMITER])), parsed[QUOTE] or None
    # If the property names the quote as the escape character, there is no escape character: a quote in a quoted field
    # can always be doubled.
    escape = parsed[ESCAPE] or None if parsed[ESCAPE] != quote else None
    for name, character in ((QUOTE, quote), (ESCAPE, escape)):
        if character == delimiter:
            raise ConfigError(f"The property {name} is the same character as {DELIMITER}, {delimiter!r}", name=name)
    return Dialect(delimiter, quote, escape)


def _check_columns(name: str, value: Any) -> None:
    if value is not None and value != INFER:
        try:
            parse_columns(value)
        except ConfigError as error:
            raise ConfigError(f"Invalid value for the property {name}: {error}", name=name) from None


def _check_encoding(name: str, value: Any) -> None:
    try:
        # Python's other codecs, such as base64, do not decode to text.
        "a".encode(value).decode(value)
    except (LookupError, ValueError) as error:
        raise ConfigError(
            f"Invalid value {value!r} for the property {name}: it must be an encoding such as utf-8, latin-1 or utf-16 "
            f"({error})",
            name=name,
        ) from None


class _FileSourceConfig(ConfigDef):
    """Accepts a tab or a space as the delimiter, although blanks around other values are removed."""

    def parse(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return super().parse(_with_named_blank(config))

    def validate(self, config: Mapping[str, Any]) -> list[ConfigValue]:
        return super().validate(_with_named_blank(config))


def _with_named_blank(config: Mapping[str, Any]) -> Mapping[str, Any]:
    blank = _BLANKS.get(str(config.get(DELIMITER)))
    return config if blank is None else {**config, DELIMITER: blank}


_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
FILE_SOURCE_CONFIG = (
    define_record_columns(_FileSourceConfig())
    .define(
        FILES, _Type.LIST, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The files to read, comma-separated: paths, or patterns with * and ?. New files that match a pattern are read "
        "when they appear.",
        validator=_check_not_empty,
    )
    .define(
        POLL_INTERVAL, _Type.LONG, 5_000, _Importance.LOW,
        "How often the connector looks for new files that match a pattern, in milliseconds.",
        validator=at_least(1, nullable=False),
    )
    .define(
        SETTLE, _Type.LONG, 0, _Importance.LOW,
        "How long a file that matches a pattern must be unchanged before it is read for the first time, in "
        "milliseconds. files.after.end waits for the same time.",
        validator=at_least(0, nullable=False),
    )
    .define(
        ORDER, _Type.STRING, "name", _Importance.LOW,
        "The order in which a task reads the files that match a pattern: name, or time (of their last change).",
        validator=one_of(ORDERS),
    )
    .define(
        AFTER_END, _Type.STRING, str(AfterEnd.LEAVE), _Importance.MEDIUM,
        "What happens to a file that was read to its end, once all of it is committed: leave, delete or move. A file "
        "counts as complete if it has not changed for files.settle.ms.",
        validator=one_of([str(value) for value in AfterEnd]),
    )
    .define(
        MOVE_TO, _Type.STRING, None, _Importance.MEDIUM, "The directory for files.after.end=move. It must exist.",
    )
    .define(
        FORMAT, _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The format of the files: csv (comma-separated values), jsonl (one JSON object per line), text (each line is "
        "a value), parquet, orc or avro.",
        validator=one_of(FORMATS),
    )
    .define(
        SCHEMA, _Type.STRING, None, _Importance.HIGH,
        "The columns and their types in Spark's DDL, for example 'id BIGINT NOT NULL, name STRING'; or infer, which "
        "derives them from the first MiB of the first file with a row. Required for jsonl, and for csv without a "
        "header. For csv with a header and no schema, all columns are of type STRING.",
        validator=_check_columns,
    )
    .define(
        HEADER, _Type.BOOLEAN, False, _Importance.MEDIUM,
        "Whether the first record of each csv file contains the names of the columns.",
    )
    .define(
        DELIMITER, _Type.STRING, ",", _Importance.LOW,
        "The character between the fields of a csv record; \\t for a tab, \\u0020 for a space.",
        validator=_check_delimiter,
    )
    .define(
        QUOTE, _Type.STRING, '"', _Importance.LOW,
        "The character that encloses csv fields which contain delimiters or line ends. To be part of such a field, it "
        "is doubled. Empty: no character encloses fields.",
        validator=_check_quote_character,
    )
    .define(
        ESCAPE, _Type.STRING, None, _Importance.LOW,
        "The escape character of csv files, for example a backslash: the character after it loses its special meaning "
        "and is part of the field, within quotes or not. Unset: none.",
        validator=_check_quote_character,
    )
    .define(
        NULL_VALUE, _Type.LIST, "", _Importance.LOW,
        "The contents of unquoted csv fields that are read as null, comma-separated, for example NA,NULL. Unset: an "
        "empty field is null. If set, an empty field is null only if the list begins with a comma.",
    )
    .define(
        EXTRA_COLUMNS, _Type.STRING, "fail", _Importance.LOW,
        "What happens if a csv header has columns that the schema does not have. fail: the task fails. ignore: these "
        "columns are left out.",
        validator=one_of(["fail", "ignore"]),
    )
    .define(
        CASE_SENSITIVE, _Type.BOOLEAN, True, _Importance.LOW,
        "Whether the names of a csv header must match the names of the schema in upper and lower case.",
    )
    .define(
        ENCODING, _Type.STRING, UTF_8, _Importance.MEDIUM,
        "The encoding of the files, by its name in Python, for example latin-1 or utf-16.",
        validator=_check_encoding,
    )
    .define(
        BATCH_BYTES, _Type.INT, DEFAULT_BATCH_BYTES, _Importance.LOW,
        "The maximum number of bytes that one poll reads, from one file or from up to 1,000 small files. A record "
        "must not be longer.",
        validator=at_least(1),
    )
)  # fmt: skip


def table_format(parsed: Mapping[str, Any]) -> TableFormat | None:
    """Return the value of `format` if files of this format contain their own schema, else None."""
    form = parsed[FORMAT].lower()
    return TableFormat(form) if form in [*TableFormat] else None


def _check_table(parsed: Mapping[str, Any]) -> None:
    form = parsed[FORMAT].lower()
    for name in (SCHEMA, HEADER):
        if parsed[name]:
            raise ConfigError(f"{FORMAT}={form} has its columns in the file: remove the property {name}", name=name)
    if codecs.lookup(parsed[ENCODING]).name != UTF_8:
        raise ConfigError(f"{FORMAT}={form} has no encoding of its own: remove the property {ENCODING}", name=ENCODING)
    if form == TableFormat.AVRO:
        check_avro_is_installed()


def infer(parsed: Mapping[str, Any], path: str, allowed: AllowedPaths) -> StructType | None:
    """Return the columns of a file, None if the file has no row yet. Raises DataError as `formats.inference` does."""
    encoding = parsed[ENCODING]
    if parsed[FORMAT].lower() == "jsonl":
        return infer_json(path, encoding, allowed)
    nulls = parsed[NULL_VALUE] or [""]
    return infer_csv(path, encoding, dialect_of(parsed), nulls, allowed, header=parsed[HEADER])


def check_move(parsed: Mapping[str, Any]) -> None:
    """Raise ConfigError if the directory for moved files is missing or not needed, or if the files are objects."""
    folder, moves = parsed[MOVE_TO], parsed[AFTER_END].lower() == AfterEnd.MOVE
    if parsed[AFTER_END].lower() != AfterEnd.LEAVE and (url := next(filter(is_object, parsed[FILES]), None)):
        raise ConfigError(
            f"{AFTER_END}={parsed[AFTER_END]} is not supported for objects such as {url}: set {AFTER_END}=leave, and let "
            "rules of the store delete them",
            name=AFTER_END,
        )
    if folder and not moves:
        raise ConfigError(f"The property {MOVE_TO} has no effect without {AFTER_END}=move", name=MOVE_TO)
    if moves and not (folder and Path(folder).is_dir()):
        raise ConfigError(
            f"{AFTER_END}=move needs the property {MOVE_TO} with a directory that exists, but it is {folder!r}",
            name=MOVE_TO,
        )
    for pattern in parsed[FILES] if moves else ():
        if reads_directory(pattern, folder):
            raise ConfigError(
                f"The files in {MOVE_TO}={folder} fit {pattern} of the property {FILES}: they would be read again, without "
                "end. Name a directory that no pattern reads",
                name=MOVE_TO,
            )


def inferred_columns(ddl: str) -> dict[str, str]:
    """Return the property of a task's configuration that holds inferred columns.

    The property's value is DDL. If the name of a column contains a `$`, the value is the DDL as a JSON string, in which
    `$` is escaped: otherwise the name might be resolved as a placeholder.
    """
    return {TASK_SCHEMA: without_placeholders(json.dumps(ddl)) if "$" in ddl else ddl}


def inferred_in(config: Mapping[str, str]) -> str | None:
    """Return the inferred columns in a task's configuration, None if it has none."""
    if TASK_SCHEMA not in config:
        return None
    text = config[TASK_SCHEMA]
    return str(json.loads(text)) if text.startswith('"') else text


def declared_columns(parsed: Mapping[str, Any]) -> StructType | None:
    """Return the columns of the property `schema`, None if the format declares no columns or they are inferred.

    Raises ConfigError if the columns contradict the format, or if they are required and missing.
    """
    form, ddl, record = parsed[FORMAT].lower(), parsed[SCHEMA], RecordColumns.from_values(parsed)
    if form == "text":
        for name in (SCHEMA, HEADER, KEY_COLUMNS, TOPIC_COLUMN, TIMESTAMP_COLUMN, HEADERS_COLUMNS):
            if parsed[name]:
                raise ConfigError(f"{FORMAT}=text has no columns: remove the property {name}, or choose csv", name=name)
        record.check(StructType())
        return None
    if table_format(parsed) is not None:
        _check_table(parsed)
        return None
    if form == "csv":
        dialect_of(parsed)
    if form == "jsonl" and parsed[HEADER]:
        raise ConfigError(f"{FORMAT}=jsonl has no header: remove the property {HEADER}", name=HEADER)
    if ddl is None:
        if form == "csv" and parsed[HEADER]:
            return None
        needed_by = "format=jsonl" if form == "jsonl" else "format=csv without a header"
        raise ConfigError(
            f"{needed_by} needs the property {SCHEMA}, for example {SCHEMA}=id BIGINT, name STRING", name=SCHEMA
        )
    if ddl == INFER:
        return None
    columns = StructType(
        [StructField(column.name, relaxed(column.dataType), column.nullable) for column in parse_columns(ddl)]
    )
    (check_csv_columns if form == "csv" else check_json_columns)(columns)
    record.check(columns)
    return columns


def declared_schemas(parsed: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of the topic's records as DDL.

    The result is empty if only the files define the columns, or if a column names the topic. Raises ConfigError as
    `declared_columns` does.
    """
    columns, record = declared_columns(parsed), RecordColumns.from_values(parsed)
    return {} if columns is None or record.topic else {parsed[TOPIC]: record.ddl(columns)}
