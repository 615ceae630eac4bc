"""FileSource: typed rows of CSV, JSON lines, Parquet, ORC or Avro, or lines of text, from one file or many.

Each file is a source partition, `{"filename": path}` -> `{"position": bytes}`, with `restart` if it is compressed, or
`{"group": ..., "row": ..., "file": ...}` where the format has groups of rows (see `tables.table_file`), and with
`identity` (see `file_identity`), so that reading a renamed file continues at its position. It is read in the order of
its records; of several files the first one with new records is read first. The files are distributed over up to
`tasks.max` tasks. Files that fit a pattern and appear later are distributed within `files.poll.interval.ms`. Tasks
whose files stay the same keep running then, and so do tasks of many files that get more (see `additions`), in distributed
mode (see `partitions_follow_task_configs`). While no file fits, one task waits.

The last record of a file may lack a line end. As long as the file may grow, that record is incomplete and is not read.
If a worker was started to stop at the source's end, the files are treated as complete, and it is read.

Files that are compressed are recognised by their content, and read by the worker alone (see `compressed`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ExactlyOnceSupport
from fencepost.api.errors import ConfigError, DataError, RetriableError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.api.source import Config, SourceConnector, SourceTask
from fencepost.config.validators import blame
from fencepost.connectors.distribution import PathHashes, are_many, distribute, preferring
from fencepost.connectors.files.config import (
    AFTER_END,
    COLUMN_PROPERTIES,
    FILE_SOURCE_CONFIG,
    INFER,
    MOVE_TO,
    ORDER,
    POLL_INTERVAL,
    SCHEMA,
    SETTLE,
    check_move,
    declared_columns,
    declared_schemas,
    infer,
    inferred_columns,
    table_format,
)
from fencepost.connectors.files.content.growing import FILENAME_FIELD, check_offsets
from fencepost.connectors.files.content.identity import FileIdentity
from fencepost.connectors.files.content.restart_point import check_content_offset
from fencepost.connectors.files.discovery.additions import with_additions
from fencepost.connectors.files.discovery.begun import BegunFiles
from fencepost.connectors.files.discovery.ended import Mark
from fencepost.connectors.files.discovery.find import FILES, Discovery
from fencepost.connectors.files.discovery.former_names import FormerNames
from fencepost.connectors.files.discovery.renames import together
from fencepost.connectors.files.discovery.shares import Share, TaskPlace
from fencepost.connectors.files.discovery.spellings import may_differ, with_present_names
from fencepost.connectors.files.discovery.watch import FileWatch
from fencepost.connectors.files.formats.inference import ddl_text
from fencepost.connectors.files.formats.tables.table_file import TablePosition
from fencepost.connectors.files.stores.objects import is_object
from fencepost.connectors.files.task import FileSourceTask
from fencepost.version import __version__

_log: Final = logging.getLogger(__name__)


_Given = tuple[Share, TaskPlace | None, dict[str, str]]
"""What a task was given, and the properties that say so."""


class _AfterRows:
    """Holds files of a pattern back until one has a row to infer the columns from."""

    def __init__(self, parsed: Mapping[str, Any], allowed: AllowedPaths) -> None:
        self._parsed = parsed
        self._allowed = allowed
        self._found = False

    def __call__(self, path: str) -> bool:
        try:
            self._found = self._found or infer(self._parsed, path, self._allowed) is not None
        except DataError:
            # The error is raised when the columns are read.
            return True
        return self._found


class FileSourceConnector(SourceConnector):
    """Reads rows from files. The value of a record is the row as a struct, or, for text, the line as a string."""

    def version(self) -> str:
        """Return fencepost's version, of which this connector is part."""
        return __version__

    def config(self) -> ConfigDef:
        """Return the definitions of the connector's properties."""
        return FILE_SOURCE_CONFIG

    def validate(self, config: Config) -> list[ConfigValue]:
        """Check each property, those that depend on others, and that there are files that may be read."""
        values = super().validate(config)
        parsed = {value.name: value.value for value in values}
        blame(values, lambda: declared_columns(parsed), COLUMN_PROPERTIES)
        blame(values, lambda: check_move(parsed), (MOVE_TO, AFTER_END))
        blame(values, lambda: self._check_files(parsed), (FILES, ORDER, SETTLE))
        return values

    def known_schemas(self, config: Config) -> dict[str, str]:
        """Return the declared columns, unless a column names the topics."""
        return declared_schemas(FILE_SOURCE_CONFIG.parse(config))

    def start(self, config: Config) -> None:
        """Read the configuration, find the files and watch their patterns.

        Raises ConfigError if a path names no file, or one that may not be read.
        """
        parsed = FILE_SOURCE_CONFIG.parse(config)
        declared_columns(parsed)
        check_move(parsed)
        discovery = self._discovery(parsed)
        if parsed[SCHEMA] == INFER:
            discovery = replace(discovery, ready=_AfterRows(parsed, self.context.allowed_paths))
        context = self.context
        if parsed[SETTLE]:
            discovery = replace(discovery, begun=BegunFiles(context.offset_reader, context.allowed_paths))
        self._watch = FileWatch(
            discovery,
            interval_s=parsed[POLL_INTERVAL] / 1000,
            on_change=context.request_task_reconfiguration,
            on_error=context.raise_error,
        )
        self._watch.start()
        self._config = dict(config)
        self._parsed = parsed
        self._inferred: str | None = None
        self._names = FormerNames(context.offset_reader, context.allowed_paths)
        # What the last call found holds for most of the files in the next one.
        self._hashes = PathHashes()
        self._shares: list[_Given] = []
        # Others cannot be listed by a task as by the connector, whose earlier scans decide between two spellings.
        self._are_listed = not may_differ(parsed[FILES])

    def stop(self) -> None:
        """End the watch."""
        self._watch.stop()

    def _check_files(self, parsed: Mapping[str, Any]) -> None:
        try:
            self._discovery(parsed).find()
        except RetriableError as error:
            raise ConfigError(f"The files cannot be looked for: {error}", name=FILES) from error

    def _discovery(self, parsed: Mapping[str, Any]) -> Discovery:
        by_time, settle_s = parsed[ORDER].lower() == "time", parsed[SETTLE] / 1000
        return Discovery(tuple(parsed[FILES]), self.context.allowed_paths, by_time=by_time, settle_s=settle_s)

    def _schema(self, files: Sequence[str]) -> str:
        """Return the inferred columns: from a committed offset, else from the first file with a row."""
        offsets = self.context.offset_reader.offsets([{FILENAME_FIELD: path} for path in files])
        pinned = next((str(offset[SCHEMA]) for offset in offsets if offset and SCHEMA in offset), None)
        if pinned is not None:
            _log.info("The schema that was inferred before stays in use: %s", pinned)
            return pinned
        for path in files:
            columns = infer(self._parsed, path, self.context.allowed_paths)
            if columns is not None:
                inferred = ddl_text(columns)
                _log.info("Inferred from the first rows of %s: schema=%s", path, inferred)
                return inferred
        raise ConfigError(
            f"{SCHEMA}={INFER} needs a row, but there is none in {', '.join(files)}: wait until there is one and restart the "
            "connector, name the files by a pattern, or set the property to columns",
            name=SCHEMA,
        )

    def task_class(self) -> type[SourceTask]:
        """Return FileSourceTask."""
        return FileSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Distribute the files. A task's configuration has nothing that changes with the number of tasks."""
        defined = FILE_SOURCE_CONFIG.keys()
        own = {name: value for name, value in self._config.items() if name in defined}
        files, inodes = self._watch.files, self._watch.inodes
        names = self._names
        names.update(self._watch, files, inodes)
        formers = with_present_names(files, names.formers, names.spellings)
        groups = together(files, formers) if formers else None
        units = list(groups or files)
        # Without files one task waits for the first: a connector without tasks would look like a mistake.
        shares = distribute(units, min(max_tasks, len(units)), self._hashes) if files else [[]]
        if files and self._parsed[SCHEMA] == INFER:
            self._inferred = self._inferred or self._schema(files)
            own |= inferred_columns(self._inferred)
        if groups is not None:
            shares = [[file for unit in share for file in groups[unit]] for share in shares]
        found = [self._share(share, inodes) for share in shares]
        places: list[TaskPlace | None] = [None] * len(shares)
        many = are_many(len(units), len(shares))
        if self._are_listed and many:
            elsewhere = _elsewhere(shares, self._hashes) if groups is not None else [[]] * len(shares)
            places = [TaskPlace(task, len(shares), self._hashes, elsewhere[task]) for task in range(len(shares))]
        self._shares = [
            (share, place, _properties(share, place, before, many=many))
            for share, place, before in zip(found, places, [*self._shares, *[None] * len(found)], strict=False)
        ]
        return [own | properties for _, _, properties in self._shares]

    def _share(self, files: Sequence[str], seen: Mapping[str, int] | None) -> Share:
        inodes: Mapping[str, int | None] | None = None
        if seen is not None:
            # A task gets another configuration, and so restarts, if one of its names has another file.
            inodes = dict(zip(files, map(seen.get, files), strict=True))
            if None in inodes.values():
                inodes = {file: inode for file, inode in inodes.items() if inode is not None or not is_object(file)}
        formers = self._names.formers
        renamed = {file: formers[file] for file in files if file in formers} if formers else {}
        return Share(files, inodes, renamed, dict(self._names.spellings))

    def partitions_follow_task_configs(self, config: Config) -> bool:  # noqa: ARG002 - it is so in all configurations
        """Say yes: a task's configuration names its files, and each file belongs to one task. For additions see there."""
        return True

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport:  # noqa: ARG002 - files can always be resumed
        """Say yes."""
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self,
        config: Config,
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    ) -> bool:
        """Refuse offsets that a task could not start from."""
        tables = table_format(FILE_SOURCE_CONFIG.parse(config)) is not None
        check_offsets(offsets, TablePosition.of if tables else check_content_offset)
        check_offsets(offsets, FileIdentity.in_offset)
        check_offsets(offsets, lambda _, offset: Mark.in_offset(offset))
        return True


def _properties(share: Share, place: TaskPlace | None, before: _Given | None, *, many: bool) -> dict[str, str]:
    """Return the properties of a share: the former ones if it is the same, or with additions if it is one of many files."""
    if before is None or before[1] != place:
        return share.in_config(place)
    former, _, properties = before
    if share == former:
        return properties
    added = share.added_to(former) if many else None
    return (with_additions(properties, added) if added else None) or share.in_config(place)


def _elsewhere(shares: Sequence[Sequence[str]], hashes: PathHashes) -> list[list[str]]:
    """Return the files that hashes give to each task, but that are with a name that is another task's."""
    found: list[list[str]] = [[] for _ in shares]
    for task, files in enumerate(shares):
        for file, owner in zip(files, preferring(hashes.of(files), len(shares)).tolist(), strict=True):
            if owner != task:
                found[owner].append(file)
    return found
