"""FileSource: typed rows of CSV or JSON lines, or lines of text, from one file or many.

Each file is a source partition, `{"filename": path}` -> `{"position": bytes}`, and is read in the order of its records;
of several files the first one with new records is read first. The files are distributed over up to `tasks.max` tasks.
Patterns are resolved when the connector starts: files that appear later are found at its next start. Tasks whose files
stay the same keep running then (in distributed mode, see `partitions_follow_task_configs`).

The last record of a file may lack a line end. As long as the file may grow, that record is incomplete and is not read.
If a worker was started to stop at the source's end, the files are treated as complete, and it is read.
"""

from __future__ import annotations

import glob
import json
import threading
from collections.abc import Mapping, Sequence
from io import FileIO
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

from pyspark.sql.types import StringType, StructField, StructType

from fencepost import __version__
from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ExactlyOnceSupport
from fencepost.api.ddl import parse_columns
from fencepost.api.errors import ConfigError
from fencepost.api.record import ArrowReader, PollResult, SourceBatch, SourceOffset, SourcePartition
from fencepost.api.source import Config, SourceConnector, SourceTask
from fencepost.config.validators import at_least, not_blank, one_of
from fencepost.connectors.csv_reader import QUOTE, CsvReader, check_csv_columns, match_header, read_header
from fencepost.connectors.distribution import distribute
from fencepost.connectors.growing_file import (
    DEFAULT_BATCH_BYTES,
    FILENAME_FIELD,
    SPLIT_BYTES,
    GrowingFile,
    Planner,
    blame,
    check_file,
    check_offsets,
    plan_lines,
    position_of,
    wait_for,
)
from fencepost.connectors.jsonl_reader import JsonLinesReader, check_json_columns
from fencepost.connectors.line_reader import LineReader
from fencepost.connectors.row_types import key_type, relaxed
from fencepost.connectors.scan import FileRange, scan_records

FILES = "files"
TOPIC = "topic"
FORMAT = "format"
SCHEMA = "schema"
HEADER = "header"
DELIMITER = "delimiter"
NULL_VALUE = "null.value"
KEY_COLUMNS = "key.columns"
BATCH_BYTES = "batch.bytes"
TASK_FILES = "task.files"

FORMATS = ("csv", "jsonl", "text")


def _some(name: str, value: Any) -> None:
    if not any(value):
        raise ConfigError(f"The property {name} is empty: name a file", name=name)


def _one_character(name: str, value: Any) -> None:
    if _delimiter(value) is None:
        raise ConfigError(
            f"Invalid value {value!r} for the property {name}: it must be one ASCII character other than a quote, or "
            "\\t for a tab character",
            name=name,
        )


def _delimiter(value: str) -> str | None:
    character = "\t" if value == "\\t" else value
    return character if len(character) == 1 and character.isascii() and character not in '"\r\n' else None


def _ddl(name: str, value: Any) -> None:
    if value is not None:
        try:
            parse_columns(value)
        except ConfigError as error:
            raise ConfigError(f"Invalid value for the property {name}: {error}", name=name) from None


_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_CONFIG = (
    ConfigDef()
    .define(
        FILES, _Type.LIST, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The files to read: paths, or patterns with * and ?, separated by commas. Files of a pattern are read in the "
        "order of their names.",
        validator=_some,
    )
    .define(
        TOPIC, _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH, "The topic to write the rows to.",
        validator=not_blank,
    )
    .define(
        FORMAT, _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "csv for comma-separated values, jsonl for one JSON object a line, text for lines as they are.",
        validator=one_of(FORMATS),
    )
    .define(
        SCHEMA, _Type.STRING, None, _Importance.HIGH,
        "The columns and their types in Spark's DDL, for example 'id BIGINT NOT NULL, name STRING'. Needed for jsonl, "
        "and for csv without a header; csv with a header and no schema has columns of type STRING.",
        validator=_ddl,
    )
    .define(HEADER, _Type.BOOLEAN, False, _Importance.MEDIUM, "Whether each csv file begins with its columns' names.")
    .define(
        DELIMITER, _Type.STRING, ",", _Importance.LOW, "The separator of the fields of a csv record; \\t for a tab character.",
        validator=_one_character,
    )
    .define(
        NULL_VALUE, _Type.STRING, "", _Importance.LOW,
        "The unquoted csv field that means null; by default an empty one.",
    )
    .define(
        KEY_COLUMNS, _Type.LIST, "", _Importance.MEDIUM,
        "The columns of the record's key: the column's value if it is one column, else a struct. By default the key "
        "is null.",
    )
    .define(
        BATCH_BYTES, _Type.INT, DEFAULT_BATCH_BYTES, _Importance.LOW,
        "The maximum number of bytes of a file in one poll. A record must not be longer.",
        validator=at_least(1),
    )
)  # fmt: skip


class FileSourceConnector(SourceConnector):
    """Reads rows from files. The value of a record is the row as a struct, or, for text, the line as a string."""

    def version(self) -> str:
        """Return fencepost's version, of which this connector is part."""
        return __version__

    def config(self) -> ConfigDef:
        """Return the definitions of the connector's properties."""
        return _CONFIG

    def validate(self, config: Config) -> list[ConfigValue]:
        """Check each property, those that depend on others, and that there are files that may be read."""
        values = super().validate(config)
        if not any(value.errors for value in values):
            parsed = _CONFIG.parse(config)
            blame(values, lambda: declared_columns(parsed))
            blame(values, lambda: find_files(parsed[FILES], self.context.allowed_paths))
        return values

    def start(self, config: Config) -> None:
        """Read the configuration and find the files. Raises ConfigError if there are none."""
        parsed = _CONFIG.parse(config)
        declared_columns(parsed)
        self._files = find_files(parsed[FILES], self.context.allowed_paths)
        self._config = dict(config)

    def task_class(self) -> type[SourceTask]:
        """Return FileSourceTask."""
        return FileSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Distribute the files. A task's configuration has nothing that changes with the number of tasks."""
        defined = _CONFIG.keys()
        own = {name: value for name, value in self._config.items() if name in defined}
        shares = distribute(self._files, min(max_tasks, len(self._files)))
        return [own | {TASK_FILES: json.dumps(files)} for files in shares]

    def partitions_follow_task_configs(self, config: Config) -> bool:  # noqa: ARG002 - it is so in all configurations
        """Say yes: a task's configuration names its files, and each file belongs to one task."""
        return True

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport:  # noqa: ARG002 - files can always be resumed
        """Say yes."""
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self,
        config: Config,  # noqa: ARG002 - positions of files mean the same in all configurations
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    ) -> bool:
        """Refuse offsets that a task could not start from."""
        check_offsets(offsets)
        return True


def find_files(patterns: Sequence[str], allowed: AllowedPaths) -> list[str]:
    """Return the files that paths and patterns name, each once.

    Raises ConfigError if one names no file, or a file that may not be read. A pattern must begin in an allowed
    directory, so that the error reveals nothing about other directories.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        _check_pattern(pattern, allowed)
        matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - Path.glob refuses absolute patterns
        if not matches:
            raise ConfigError(
                f"The property {FILES} names {pattern}, but there is no such file: create it, or correct the path. "
                "Relative paths start at the worker's working directory",
                name=FILES,
            )
        for match in matches:
            check_file(match, FILES, allowed)
        found.update(dict.fromkeys(matches))
    return list(found)


def _check_pattern(pattern: str, allowed: AllowedPaths) -> None:
    parts = Path(pattern).parts
    fixed = list(takewhile(lambda part: not glob.has_magic(part), parts))
    check_file(str(Path(*fixed)), FILES, allowed)
    if allowed.restricted and ".." in parts[len(fixed) :]:
        raise ConfigError(f"The property {FILES} names {pattern}: after a * or ? there must be no ..", name=FILES)


def declared_columns(parsed: Mapping[str, Any]) -> StructType | None:
    """Return the columns of the property `schema`, None if the format declares none.

    Raises ConfigError if they contradict the format, or are required and missing.
    """
    form, ddl = parsed[FORMAT].lower(), parsed[SCHEMA]
    if form == "text":
        for name in (SCHEMA, KEY_COLUMNS, HEADER):
            if parsed[name]:
                raise ConfigError(f"{FORMAT}=text has no columns: remove the property {name}, or choose csv", name=name)
        return None
    if form == "jsonl" and parsed[HEADER]:
        raise ConfigError(f"{FORMAT}=jsonl has no header: remove the property {HEADER}", name=HEADER)
    if ddl is None:
        if form == "csv" and parsed[HEADER]:
            return None
        needed_by = "format=jsonl" if form == "jsonl" else "format=csv without a header"
        raise ConfigError(
            f"{needed_by} needs the property {SCHEMA}, for example {SCHEMA}=id BIGINT, name STRING", name=SCHEMA
        )
    columns = StructType(
        [StructField(column.name, relaxed(column.dataType), column.nullable) for column in parse_columns(ddl)]
    )
    (check_csv_columns if form == "csv" else check_json_columns)(columns)
    key_type(columns, parsed[KEY_COLUMNS])
    return columns


class FileSourceTask(SourceTask):
    """Returns the complete records of its files."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._whole = False

    def start(self, config: Config) -> None:
        """Start in each file after the last committed record."""
        self._parsed = _CONFIG.parse(config)
        self._columns = declared_columns(self._parsed)
        paths = cast("list[str]", json.loads(config[TASK_FILES]))
        offsets = self.context.offset_reader.offsets([{FILENAME_FIELD: path} for path in paths])
        plan: Planner = _plan_csv if self._format == "csv" else plan_lines
        self._files = [
            GrowingFile(path, position_of(path, offset), plan, self._parsed[BATCH_BYTES], self.context.allowed_paths)
            for path, offset in zip(paths, offsets, strict=True)
        ]

    @property
    def _format(self) -> str:
        return str(self._parsed[FORMAT]).lower()

    def poll(self) -> PollResult:
        """Return a batch of records of one file, or None after a second without any."""
        splits = wait_for(self._look, self._stopping)
        if not splits:
            return None
        file = next(file for file in self._files if file.path == splits[0].path)
        return SourceBatch(
            reader=self._reader(file.path),
            splits=splits,
            offsets=[(file.partition, file.offset)],
            bytes=splits[-1].end - splits[0].start,
        )

    def _look(self) -> list[FileRange]:
        for file in self._files:
            if splits := file.advance(whole=self._whole):
                return splits
        return []

    def _reader(self, path: str) -> ArrowReader:
        allowed = self.context.allowed_paths
        if self._format == "text":
            return LineReader(allowed=allowed)
        keys = tuple(self._parsed[KEY_COLUMNS])
        if self._format == "jsonl":
            return JsonLinesReader(cast("StructType", self._columns), keys, allowed)
        delimiter = cast("str", _delimiter(self._parsed[DELIMITER]))
        names = read_header(path, delimiter, allowed) if self._parsed[HEADER] else None
        columns = self._columns or StructType([StructField(name, StringType()) for name in names or ()])
        if names is not None:
            match_header(path, names, columns)
            key_type(columns, keys)
        return CsvReader(
            columns=columns,
            keys=keys,
            allowed=allowed,
            file_columns=names or tuple(columns.names),
            header=names is not None,
            delimiter=delimiter,
            null_value=self._parsed[NULL_VALUE],
        )

    def lag(self) -> float:
        """Return how many bytes of the files are left to poll."""
        return sum(file.lag for file in self._files)

    def stop(self) -> None:
        """Wake a blocked poll."""
        self._stopping.set()

    def at_end(self) -> bool:
        """Return whether all of every file was returned. The call itself means that the files are complete."""
        self._whole = True
        return all(file.finished for file in self._files)


def _plan_csv(file: FileIO, part: FileRange, size: int) -> list[FileRange]:
    return scan_records(file, part, size, quote=QUOTE, split_bytes=SPLIT_BYTES)
