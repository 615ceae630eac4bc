"""FileSource: typed rows of CSV, JSON lines, Parquet, ORC or Avro, or lines of text, from one file or many.

Each file is a source partition, `{"filename": path}` -> `{"position": bytes}`. The offset also has `restart` if the
file is compressed. If the format has groups of rows, the offset is `{"group": ..., "row": ..., "file": ...}` instead
(see `tables.table_file`). The offset also has `identity` (see `content.identity`), so that reading continues at the
position after a rename of the file.

A file is read in the order of its records; among several files, the first file with new records is read first. The
files are distributed over up to `tasks.max` tasks. Files that match a pattern and appear later are distributed within
`files.poll.interval.ms`. Tasks whose files stay the same keep running then. In distributed mode, tasks of many files
also keep running when they get more files (see `additions` and `partitions_follow_task_configs`). While no file
matches, one task waits.

The last record of a file may lack a line end. As long as the file may grow, that record is incomplete and is not read.
If a worker was started to stop at the source's end, the files are treated as complete, and that record is read too.

Compressed files are recognised by their content, and only the worker reads them (see `compressed`).
"""

from __future__ import annotations

import codecs
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ExactlyOnceSupport
from fencepost.api.ddl import parse_columns
from fencepost.api.errors import ConfigError, DataError, RetriableError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.api.source import Config, SourceConnector, SourceTask
from fencepost.config.validators import blame
from fencepost.connectors.distribution import PathHashes, are_many, distribute, preferring
from fencepost.connectors.files.binding import Binding
from fencepost.connectors.files.config import (
    AFTER_END,
    COLUMN_PROPERTIES,
    ENCODING,
    FILE_SOURCE_CONFIG,
    FORMAT,
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
from fencepost.connectors.files.content.altered import check_altered, check_columns, check_fields, check_no_directory
from fencepost.connectors.files.content.growing import FILENAME_FIELD, POSITION_FIELD, check_offsets
from fencepost.connectors.files.content.identity import IDENTITY_FIELD, FileIdentity
from fencepost.connectors.files.content.origin import END_FIELD, OBJECT_FIELD
from fencepost.connectors.files.content.restart_point import RESTART_FIELD, check_content_offset
from fencepost.connectors.files.discovery.additions import with_additions
from fencepost.connectors.files.discovery.begun import BegunFiles
from fencepost.connectors.files.discovery.ended import ENDED_FIELD, Mark, check_mark
from fencepost.connectors.files.discovery.find import FILES, Discovery
from fencepost.connectors.files.discovery.foreign_identities import check_identities, copied_files
from fencepost.connectors.files.discovery.former_names import FormerNames
from fencepost.connectors.files.discovery.renames import together
from fencepost.connectors.files.discovery.rivals import check_replaced, check_rivals
from fencepost.connectors.files.discovery.shares import Share, TaskPlace
from fencepost.connectors.files.discovery.spellings import may_differ, with_present_names
from fencepost.connectors.files.discovery.watch import FileWatch
from fencepost.connectors.files.formats.inference import ddl_text
from fencepost.connectors.files.formats.tables.altered_table import check_altered_table
from fencepost.connectors.files.formats.tables.table_file import GROUP_FIELD, ROW_FIELD, TablePosition
from fencepost.connectors.files.formats.tables.table_file import IDENTITY_FIELD as TABLE_FIELD
from fencepost.connectors.files.stores.objects import is_object
from fencepost.connectors.files.task import FileSourceTask
from fencepost.version import __version__

_log: Final = logging.getLogger(__name__)


_PLACES: Final = (POSITION_FIELD, GROUP_FIELD, ROW_FIELD)
_TaskShare = tuple[Share, TaskPlace | None, dict[str, str]]
"""A task's files, its place among the tasks or None, and the properties of its configuration that have the files."""


class _ReadyAfterFirstRow:
    """Holds back the files of a pattern until one of them has a row, from which the columns can be inferred."""

    def __init__(self, parsed: Mapping[str, Any], allowed: AllowedPaths) -> None:
        self._parsed = parsed
        self._allowed = allowed
        self._found = False

    def __call__(self, path: str) -> bool:
        try:
            self._found = self._found or infer(self._parsed, path, self._allowed) is not None
        except DataError:
            # This error is raised again when the columns are read.
            return True
        return self._found


class FileSourceConnector(SourceConnector):
    """Reads rows from files. The value of a record is the row as a struct, or, for text, the line as a string."""

    def version(self) -> str:
        """Return fencepost's version: the connector is part of it."""
        return __version__

    def config(self) -> ConfigDef:
        """Return the definitions of the connector's properties."""
        return FILE_SOURCE_CONFIG

    def validate(self, config: Config) -> list[ConfigValue]:
        """Check each property, the properties that depend on others, and whether the paths name readable files."""
        values = super().validate(config)
        parsed = {value.name: value.value for value in values}
        blame(values, lambda: declared_columns(parsed), COLUMN_PROPERTIES)
        blame(values, lambda: check_move(parsed), (MOVE_TO, AFTER_END))
        blame(values, lambda: self._check_files(parsed), (FILES, ORDER, SETTLE))
        return values

    def known_schemas(self, config: Config) -> dict[str, str]:
        """Return the DDL of the topic's records; empty if only files define columns, or if a column names the topic."""
        return declared_schemas(FILE_SOURCE_CONFIG.parse(config))

    def start(self, config: Config) -> None:
        """Read the configuration, find the files and watch their patterns.

        Raises ConfigError if a path names no file, or a file that may not be read.
        """
        parsed = FILE_SOURCE_CONFIG.parse(config)
        declared_columns(parsed)
        check_move(parsed)
        discovery = self._discovery(parsed)
        if parsed[SCHEMA] == INFER:
            discovery = replace(discovery, ready=_ReadyAfterFirstRow(parsed, self.context.allowed_paths))
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
        # The hashes and shares of the previous call are kept, because most files are the same in the next call.
        self._hashes = PathHashes()
        self._shares: list[_TaskShare] = []
        # Tasks may list the directories themselves only if no path can have two spellings. Otherwise the connector's
        # earlier scans decide between the spellings, and a task might list other files than the connector.
        self._tasks_may_list = not may_differ(parsed[FILES])

    def stop(self) -> None:
        """Stop watching the files."""
        self._watch.stop()

    def _check_files(self, parsed: Mapping[str, Any]) -> None:
        try:
            self._discovery(parsed).find()
        except RetriableError as error:
            raise ConfigError(f"The files cannot be listed: {error}", name=FILES) from error

    def _discovery(self, parsed: Mapping[str, Any]) -> Discovery:
        by_time, settle_s = parsed[ORDER].lower() == "time", parsed[SETTLE] / 1000
        return Discovery(tuple(parsed[FILES]), self.context.allowed_paths, by_time=by_time, settle_s=settle_s)

    def _schema(self, files: Sequence[str]) -> str:
        """Return the inferred columns: from a committed offset, else from the first file with a row."""
        offsets = self.context.offset_reader.offsets([{FILENAME_FIELD: path} for path in files])
        pinned = next((str(offset[SCHEMA]) for offset in offsets if offset and offset.get(SCHEMA) is not None), None)
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
        """Distribute the files. A task's configuration does not depend on the number of tasks, unless it has a rule."""
        defined = FILE_SOURCE_CONFIG.keys()
        own = {name: value for name, value in self._config.items() if name in defined}
        files, inodes = self._watch.files, self._watch.inodes
        names = self._names
        names.update(self._watch, files, inodes)
        formers = with_present_names(files, names.formers, names.spellings)
        groups = together(files, formers) if formers else None
        units = list(groups or files)
        # If there are no files, one task waits for the first file: a connector without tasks would look like a mistake.
        shares = distribute(units, min(max_tasks, len(units)), self._hashes) if files else [[]]
        if files and self._parsed[SCHEMA] == INFER:
            self._inferred = self._inferred or self._schema(files)
            own |= inferred_columns(self._inferred)
        if groups is not None:
            shares = [[file for unit in share for file in groups[unit]] for share in shares]
        found = [self._share(share, inodes) for share in shares]
        places: list[TaskPlace | None] = [None] * len(shares)
        many = are_many(len(units), len(shares))
        if self._tasks_may_list and many:
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
            # A task gets another configuration, and so restarts, if another file is now at one of its paths.
            inodes = dict(zip(files, map(seen.get, files), strict=True))
            if None in inodes.values():
                inodes = {file: inode for file, inode in inodes.items() if inode is not None or not is_object(file)}
        formers = self._names.formers
        renamed = {file: formers[file] for file in files if file in formers} if formers else {}
        return Share(files, inodes, renamed, dict(self._names.spellings))

    def partitions_follow_task_configs(self, config: Config) -> bool:  # noqa: ARG002 - it is so in all configurations
        """Return True: a task's configuration names its files, and each file belongs to one task.

        For files that are added to a running task, see `additions`.
        """
        return True

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport:  # noqa: ARG002 - files can always be resumed
        """Return SUPPORTED."""
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self,
        config: Config,
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    ) -> bool:
        """Refuse offsets at which a task could not start, two offsets of one file, and identities of other files."""
        parsed = FILE_SOURCE_CONFIG.parse(config)
        if all(offset is None for _, offset in offsets):
            names = {_name(partition) for partition, _ in offsets}
            # If no offset stays, the user wants everything to be read again.
            if any(_name(partition) not in names for partition, _ in self._stored()):
                check_replaced(offsets, self.context.offset_reader, self.context.allowed_paths, self._finder(parsed))
            return True
        tables = table_format(parsed)
        check_offsets(offsets, check_content_offset if tables is None else TablePosition.of)
        check_offsets(offsets, FileIdentity.in_offset)
        check_offsets(offsets, lambda _, offset: Mark.in_offset(offset))
        check_offsets(offsets, lambda path, offset: check_fields(path, offset, *_known_fields(parsed, path)))
        allowed = self.context.allowed_paths
        check_offsets(offsets, lambda path, offset: check_columns(path, offset, SCHEMA, partial(_check_ddl, parsed)))
        check_offsets(offsets, lambda path, _: check_no_directory(path, allowed))
        if tables is not None:
            check_offsets(offsets, lambda path, offset: check_altered_table(path, offset, tables, allowed))
        else:
            encoding = codecs.lookup(parsed[ENCODING]).name
            check_offsets(
                offsets, lambda path, offset: check_altered(path, offset, encoding, allowed, _marked_size(offset))
            )
        find, stored = self._finder(parsed), self._stored()
        by_name = {_name(partition): offset for partition, offset in stored}
        check_offsets(offsets, lambda path, offset: check_mark(path, offset, by_name.get(path), _PLACES))
        check_replaced(offsets, self.context.offset_reader, allowed, find)
        check_rivals(offsets, stored, allowed, find)
        check_identities(offsets, allowed, find)
        return True

    def _stored(self) -> Sequence[tuple[SourcePartition | None, SourceOffset]]:
        """Return the stored offsets; none if one of them is malformed, so that it can be replaced or removed."""
        try:
            return list(self.context.offset_reader.items())
        except DataError:
            return ()

    def _finder(self, parsed: Mapping[str, Any]) -> Callable[[], Sequence[str]]:
        # A file that was rotated just now is found as well.
        return replace(self._discovery(parsed), settle_s=0).find

    def bind_offsets(
        self,
        config: Config,
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    ) -> Sequence[tuple[SourcePartition | None, SourceOffset | None]]:
        """Return the offsets with the identities of the files that are at the paths now.

        If a path has a copy of the offset's file, the identity gets the inode and times of the copy.
        """
        parsed, allowed = FILE_SOURCE_CONFIG.parse(config), self.context.allowed_paths
        copies = copied_files(offsets, allowed, self._finder(parsed))
        binding = Binding(parsed, allowed, copies)
        return [
            (partition, offset and binding.bound(str((partition or {})[FILENAME_FIELD]), offset))
            for partition, offset in offsets
        ]


def _name(partition: SourcePartition | None) -> str:
    """Return the path as text: a partition that a user set may have another value, which cannot be in a set."""
    return str((partition or {}).get(FILENAME_FIELD))


def _marked_size(offset: SourceOffset) -> int | None:
    mark = Mark.in_offset(offset)
    return None if mark is None else mark.size


def _check_ddl(parsed: Mapping[str, Any], ddl: str) -> None:
    parse_columns(ddl)
    # Columns that are not in use need not fit the properties.
    if parsed[SCHEMA] == INFER:
        declared_columns({**parsed, SCHEMA: ddl})


def _known_fields(parsed: Mapping[str, Any], path: str) -> tuple[list[str], str]:
    """Return the fields that the source offset of a file may have, and the kind of the file."""
    form, of_store = parsed[FORMAT].lower(), is_object(path)
    if table_format(parsed) is not None:
        fields = [GROUP_FIELD, ROW_FIELD, TABLE_FIELD]
    else:
        fields = [POSITION_FIELD, RESTART_FIELD, *((OBJECT_FIELD, END_FIELD) if of_store else ())]
    fields += [] if of_store else [IDENTITY_FIELD, ENDED_FIELD]
    # Inferred columns stay in an offset after the property `schema` has changed from `infer`.
    fields += [SCHEMA] if form in {"csv", "jsonl"} else []
    return fields, f"{'objects' if of_store else 'files'} with {FORMAT}={form}"


def _properties(share: Share, place: TaskPlace | None, before: _TaskShare | None, *, many: bool) -> dict[str, str]:
    """Return the properties of a task's configuration that define which files the task reads.

    If the task's files are the same as before, the previous properties are returned. If a task of many files only got
    more files, the previous properties are returned with additions.
    """
    if before is None or before[1] != place:
        return share.in_config(place)
    former, _, properties = before
    if share == former:
        return properties
    added = share.added_to(former) if many else None
    return (with_additions(properties, added) if added else None) or share.in_config(place)


def _elsewhere(shares: Sequence[Sequence[str]], hashes: PathHashes) -> list[list[str]]:
    """Return, for each task, the files that belong to it by their hashes but are assigned to another task.

    The other task has such a file because all names of one file are assigned to one task.
    """
    found: list[list[str]] = [[] for _ in shares]
    for task, files in enumerate(shares):
        for file, owner in zip(files, preferring(hashes.of(files), len(shares)).tolist(), strict=True):
            if owner != task:
                found[owner].append(file)
    return found
