"""FileStreamSource: follows one text file, line by line, as Kafka's own connector with this name does.

The connector accepts the same configuration as Kafka's and uses the same source offsets, `{"filename": file}` ->
`{"position": bytes}`. So a connector can be moved from a Java worker to fencepost and back. The differences, and their
reasons:

- `batch.size` limits the lines of one poll only if it is set. With Kafka's default of 2,000 lines, a large file would
  need many transactions of 2,000 records; without the property, a poll is limited by `batch.bytes`.
- Without `file`, Kafka's connector reads the standard input. This is refused here: the standard input cannot be read
  again from a position, so it cannot be delivered exactly once.
- A file that is shorter than the committed position fails the task; Kafka's connector waits silently.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence
from functools import partial
from io import FileIO
from pathlib import Path
from typing import ClassVar

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ExactlyOnceSupport
from fencepost.api.errors import ConfigError, DataError
from fencepost.api.record import PollResult, SourceBatch, SourceOffset, SourcePartition
from fencepost.api.source import Config, SourceConnector, SourceTask
from fencepost.api.topic_names import topic_name
from fencepost.config.validators import at_least, blame, not_blank
from fencepost.connectors.files.content.growing import (
    DEFAULT_BATCH_BYTES,
    FILENAME_FIELD,
    SPLIT_BYTES,
    GrowingFile,
    Planner,
    check_file,
    check_offsets,
    plan_lines,
    position_of,
    wait_for,
)
from fencepost.connectors.files.content.ranges import FileRange, scan_records
from fencepost.connectors.files.formats.line_reader import LineReader
from fencepost.version import __version__

_LOG = logging.getLogger(__name__)

FILE = "file"
TOPIC = "topic"
BATCH_SIZE = "batch.size"
BATCH_BYTES = "batch.bytes"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_REMEDY = (
    "FileStreamSource follows a file of this machine, so give its path. FileSource reads objects of s3://, gs://, abfss:// "
    "and hdfs://"
)
_JAVA_TASK = "org.apache.kafka.connect.file.FileStreamSourceTask"

_Importance = ConfigDef.Importance
_CONFIG = (
    ConfigDef()
    .define(
        FILE, ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The file to read. Without this property Kafka's connector reads the standard input, which is not supported: no "
        "position in it can be resumed. As in Kafka, a file that takes the place of another one and is not shorter is read "
        "from the same position; FileSource notices the replacement.",
        validator=not_blank,
    )
    .define(
        TOPIC, ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH, "The topic to write the lines to.",
        validator=topic_name,
    )
    .define(
        BATCH_SIZE, ConfigDef.Type.INT, 2000, _Importance.LOW,
        "The maximum number of lines in one poll, if this property is set. The default is the one of Kafka's "
        "connector and has no effect here: without this property, only batch.bytes limits a poll.",
        validator=at_least(1),
    )
    .define(
        BATCH_BYTES, ConfigDef.Type.INT, DEFAULT_BATCH_BYTES, _Importance.LOW,
        "The maximum number of bytes of the file in one poll. A line must not be longer.",
        validator=at_least(1),
    )
)  # fmt: skip


class FileStreamSourceConnector(SourceConnector):
    """Follows one text file with one task. The records have a null key and the line as a string value."""

    def version(self) -> str:
        """Return fencepost's version: the connector is part of it."""
        return __version__

    def config(self) -> ConfigDef:
        """Return the definitions of `file`, `topic`, `batch.size` and `batch.bytes`."""
        return _CONFIG

    def known_schemas(self, config: Config) -> dict[str, str]:
        """Return the columns of a line."""
        return {config[TOPIC]: LineReader.schema}

    def validate(self, config: Config) -> list[ConfigValue]:
        """Check each property, and whether the file may be read. The file need not exist yet."""
        values = super().validate(config)
        if not any(value.errors for value in values if value.name == FILE):
            blame(values, lambda: self._check_file(config[FILE]))
        return values

    def start(self, config: Config) -> None:
        """Read the configuration. Raises ConfigError if no file is configured."""
        # Links in the file's path may have changed since the last check.
        self._check_file(_CONFIG.parse(config)[FILE])
        super().start(config)

    def _check_file(self, file: str) -> None:
        if _URL.match(file):
            raise ConfigError(f"The property {FILE} names {file}, which is a URL. {_REMEDY}", name=FILE)
        check_file(file, FILE, self.context.allowed_paths)
        if Path(file).is_dir():
            raise ConfigError(
                f"The property {FILE} names {file}, which is a directory: name a file. FileSource reads all files of a "
                "directory",
                name=FILE,
            )

    def task_class(self) -> type[SourceTask]:
        """Return FileStreamSourceTask."""
        return FileStreamSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the configuration of one task.

        The configuration has `task.class`, so that a Java worker of the group can run the task, too.
        """
        return [{**config, "task.class": _JAVA_TASK} for config in super().task_configs(max_tasks)]

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport:  # noqa: ARG002 - a file can always be resumed
        """Return SUPPORTED."""
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self,
        config: Config,  # noqa: ARG002 - any file may have these
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    ) -> bool:
        """Refuse offsets at which a task could not start."""
        check_offsets(offsets)
        return True


class FileStreamSourceTask(SourceTask):
    """Returns the complete lines that were added to the file."""

    java_class: ClassVar[str] = _JAVA_TASK
    """The Java task whose configurations and offsets this task takes over."""

    def __init__(self) -> None:
        self._stopping = threading.Event()

    def start(self, config: Config) -> None:
        """Start after the last committed line."""
        parsed = _CONFIG.parse(config)
        path = parsed[FILE]
        offset = self.context.offset_reader.offset({FILENAME_FIELD: path})
        plan: Planner = partial(_plan_count, most=parsed[BATCH_SIZE]) if BATCH_SIZE in config else plan_lines
        self._file = GrowingFile(path, position_of(path, offset), plan, parsed[BATCH_BYTES], self.context.allowed_paths)

    def poll(self) -> PollResult:
        """Return a batch of lines, or None if no new lines came within a second."""
        start = self._file.position
        splits = wait_for(self._file.advance, self._stopping)
        if not splits:
            return None
        return SourceBatch(
            reader=LineReader(allowed=self.context.allowed_paths),
            splits=splits,
            offsets=[(self._file.partition, self._file.offset)],
            bytes=self._file.position - start,
        )

    def lag(self) -> float:
        """Return how many bytes of the file are left to poll."""
        return self._file.lag

    def stop(self) -> None:
        """Wake a blocked poll."""
        self._stopping.set()

    def at_end(self) -> bool:
        """Return whether every complete line was returned; bytes after the last one are an incomplete line.

        Raises DataError if the file does not exist, because then there is no end to reach.
        """
        if self._file.size() is None:
            raise DataError(
                f"The file {self._file.path} does not exist, so there is no end to read to: create it first"
            )
        if self._file.exhausted and not self._file.finished:
            _LOG.warning(
                "The file %s ends in a line without a line end, from byte %d on, which is not read: whether the line "
                "is whole cannot be known",
                self._file.path,
                self._file.position,
            )
        return self._file.exhausted


def _plan_count(file: FileIO, part: FileRange, size: int, *, most: int) -> list[FileRange]:
    return scan_records(file, part, size, quoting=None, split_bytes=SPLIT_BYTES, most=most)
