"""FileSource: typed rows of CSV or JSON lines, or lines of text, from one file or many.

Each file is a source partition, `{"filename": path}` -> `{"position": bytes}`, and is read in the order of its records;
of several files the first one with new records is read first. The files are distributed over up to `tasks.max` tasks.
Files that fit a pattern and appear later are distributed within `files.poll.interval.ms`. Tasks whose files stay the same
keep running then (in distributed mode, see `partitions_follow_task_configs`). While no file fits, one task waits.

The last record of a file may lack a line end. As long as the file may grow, that record is incomplete and is not read.
If a worker was started to stop at the source's end, the files are treated as complete, and it is read.

Files that are compressed are recognised by their content, and read by the worker alone (see `compressed_file`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from io import FileIO
from typing import Any, cast

from pyspark.sql.types import StringType, StructField, StructType

from fencepost import __version__
from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ExactlyOnceSupport
from fencepost.api.ddl import parse_columns
from fencepost.api.errors import ConfigError
from fencepost.api.record import ArrowReader, PollResult, SourceBatch, SourceOffset, SourcePartition
from fencepost.api.source import Config, SourceConnector, SourceTask
from fencepost.config.validators import at_least, one_of
from fencepost.connectors.compressed_file import CompressedFile, head_of
from fencepost.connectors.compression import codec_of
from fencepost.connectors.csv_reader import QUOTE, CsvReader, check_csv_columns, match_header, read_header
from fencepost.connectors.distribution import distribute
from fencepost.connectors.file_discovery import FILES, ORDERS, Discovery, FileWatch
from fencepost.connectors.growing_file import (
    DEFAULT_BATCH_BYTES,
    FILENAME_FIELD,
    SPLIT_BYTES,
    GrowingFile,
    Planner,
    blame,
    check_offsets,
    plan_lines,
    position_of,
    wait_for,
)
from fencepost.connectors.jsonl_reader import JsonLinesReader, check_json_columns
from fencepost.connectors.line_reader import LineReader
from fencepost.connectors.record_columns import (
    HEADERS_COLUMNS,
    KEY_COLUMNS,
    TIMESTAMP_COLUMN,
    TOPIC_COLUMN,
    RecordColumns,
    define_record_columns,
)
from fencepost.connectors.row_types import relaxed
from fencepost.connectors.scan import FileRange, scan_records

POLL_INTERVAL = "files.poll.interval.ms"
SETTLE = "files.settle.ms"
ORDER = "files.order"
FORMAT = "format"
SCHEMA = "schema"
HEADER = "header"
DELIMITER = "delimiter"
NULL_VALUE = "null.value"
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
    define_record_columns(ConfigDef())
    .define(
        FILES, _Type.LIST, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The files to read: paths, or patterns with * and ?, separated by commas. Files that appear later and fit a "
        "pattern are read as well.",
        validator=_some,
    )
    .define(
        POLL_INTERVAL, _Type.LONG, 5_000, _Importance.LOW,
        "How often the connector looks for new files that fit a pattern, in milliseconds.",
        validator=at_least(1, nullable=False),
    )
    .define(
        SETTLE, _Type.LONG, 0, _Importance.LOW,
        "How long a file that fits a pattern must not have changed before it is read for the first time, in milliseconds.",
        validator=at_least(0, nullable=False),
    )
    .define(
        ORDER, _Type.STRING, "name", _Importance.LOW,
        "The order in which a task reads the files of a pattern: name, or time for that of their last change.",
        validator=one_of(ORDERS),
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
            blame(values, self._discovery(parsed).find)
        return values

    def start(self, config: Config) -> None:
        """Read the configuration, find the files and watch their patterns.

        Raises ConfigError if a path names no file, or one that may not be read.
        """
        parsed = _CONFIG.parse(config)
        declared_columns(parsed)
        discovery = self._discovery(parsed)
        context = self.context
        self._watch = FileWatch(
            discovery,
            interval_s=parsed[POLL_INTERVAL] / 1000,
            on_new_files=context.request_task_reconfiguration,
            on_error=context.raise_error,
        )
        self._watch.start()
        self._config = dict(config)

    def stop(self) -> None:
        """End the watch."""
        self._watch.stop()

    def _discovery(self, parsed: Mapping[str, Any]) -> Discovery:
        by_time, settle_s = parsed[ORDER].lower() == "time", parsed[SETTLE] / 1000
        return Discovery(tuple(parsed[FILES]), self.context.allowed_paths, by_time=by_time, settle_s=settle_s)

    def task_class(self) -> type[SourceTask]:
        """Return FileSourceTask."""
        return FileSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Distribute the files. A task's configuration has nothing that changes with the number of tasks."""
        defined = _CONFIG.keys()
        own = {name: value for name, value in self._config.items() if name in defined}
        files = self._watch.files
        # A single task waits for the first file, so that the connector does not seem to have none by mistake.
        shares = distribute(files, min(max_tasks, len(files))) if files else [[]]
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


def declared_columns(parsed: Mapping[str, Any]) -> StructType | None:
    """Return the columns of the property `schema`, None if the format declares none.

    Raises ConfigError if they contradict the format, or are required and missing.
    """
    form, ddl, record = parsed[FORMAT].lower(), parsed[SCHEMA], RecordColumns.from_values(parsed)
    if form == "text":
        for name in (SCHEMA, HEADER, KEY_COLUMNS, TOPIC_COLUMN, TIMESTAMP_COLUMN, HEADERS_COLUMNS):
            if parsed[name]:
                raise ConfigError(f"{FORMAT}=text has no columns: remove the property {name}, or choose csv", name=name)
        record.check(StructType())
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
    record.check(columns)
    return columns


class FileSourceTask(SourceTask):
    """Returns the complete records of its files."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._whole = False
        self._files: list[GrowingFile | CompressedFile] = []

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
        self._untold = set(paths)

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
            reader=self._reader(file),
            splits=splits,
            offsets=[(file.partition, file.offset)],
            bytes=splits[-1].end - splits[0].start,
        )

    def _look(self) -> list[FileRange]:
        if self._untold:
            self._files = [self._told(file) for file in self._files]
        for file in self._files:
            if file.path not in self._untold and (splits := file.advance(whole=self._whole)):
                return splits
        return []

    def _told(self, file: GrowingFile | CompressedFile) -> GrowingFile | CompressedFile:
        """Return a file as what its first bytes say."""
        if file.path not in self._untold or isinstance(file, CompressedFile):
            return file
        allowed = self.context.allowed_paths
        if file.is_missing():
            certain, codec = False, None
        else:
            certain, codec = codec_of(file.path, allowed)
        # A file that was read before had enough bytes then.
        if certain or file.position or self._whole:
            self._untold.remove(file.path)
        if codec is None:
            return file
        quote = QUOTE if self._format == "csv" else None
        return CompressedFile(file.path, file.position, codec, quote, self._parsed[BATCH_BYTES], allowed)

    def _reader(self, file: GrowingFile | CompressedFile) -> ArrowReader:
        allowed = self.context.allowed_paths
        if self._format == "text":
            return LineReader(allowed=allowed)
        record = RecordColumns.from_values(self._parsed)
        if self._format == "jsonl":
            return JsonLinesReader(cast("StructType", self._columns), record, allowed)
        delimiter = cast("str", _delimiter(self._parsed[DELIMITER]))
        names = read_header(self._head(file), delimiter, allowed) if self._parsed[HEADER] else None
        columns = self._columns or StructType([StructField(name, StringType()) for name in names or ()])
        if names is not None:
            match_header(file.path, names, columns)
            record.check(columns)
        return CsvReader(
            columns=columns,
            record=record,
            allowed=allowed,
            file_columns=names or tuple(columns.names),
            header=names is not None,
            delimiter=delimiter,
            null_value=self._parsed[NULL_VALUE],
        )

    def _head(self, file: GrowingFile | CompressedFile) -> FileRange:
        if isinstance(file, CompressedFile):
            return head_of(file.path, file.codec, self.context.allowed_paths)
        return FileRange(file.path, 0, file.position)

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
