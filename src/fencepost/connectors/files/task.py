"""The task of FileSource: reads its files, one after the other, and takes away what was read to its end if it is told to."""

from __future__ import annotations

import codecs
import json
import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from io import FileIO
from itertools import chain
from typing import Any, Final, cast

from pyspark.sql.types import StringType, StructField, StructType

from fencepost.api.errors import DataError
from fencepost.api.record import ArrowReader, PollResult, SourceBatch, SourceOffset, SourcePartition
from fencepost.api.source import Config, SourceTask
from fencepost.connectors.files.config import (
    AFTER_END,
    BATCH_BYTES,
    CASE_SENSITIVE,
    ENCODING,
    EXTRA_COLUMNS,
    FILE_SOURCE_CONFIG,
    FORMAT,
    HEADER,
    INFER,
    MOVE_TO,
    NULL_VALUE,
    POLL_INTERVAL,
    SCHEMA,
    SETTLE,
    TASK_FILES,
    TASK_INODES,
    TASK_RENAMED,
    TASK_SCHEMA,
    declared_columns,
    dialect_of,
    table_format,
)
from fencepost.connectors.files.content.codecs.compression import Form, codec_of
from fencepost.connectors.files.content.compressed import ContentFile, head_of
from fencepost.connectors.files.content.csv_quotes import Quoting
from fencepost.connectors.files.content.growing import (
    FILENAME_FIELD,
    SPLIT_BYTES,
    GrowingFile,
    Planner,
    plan_lines,
    plan_with_last_return,
    position_of,
    wait_for,
)
from fencepost.connectors.files.content.identity import FileIdentity, FileTrack, inode_at
from fencepost.connectors.files.content.ranges import FileRange, scan_records
from fencepost.connectors.files.content.restart_point import RestartPoint, replaced
from fencepost.connectors.files.discovery.ended import ENDED_FIELD, AfterEnd, Mark, take_away
from fencepost.connectors.files.discovery.find import FILES
from fencepost.connectors.files.discovery.renames import resume
from fencepost.connectors.files.discovery.seen_inodes import SeenInodes
from fencepost.connectors.files.formats.csv_reader import CsvReader, match_header, read_header
from fencepost.connectors.files.formats.jsonl_reader import JsonLinesReader
from fencepost.connectors.files.formats.line_reader import LineReader
from fencepost.connectors.files.formats.tables.table_file import TableFile, TablePosition
from fencepost.connectors.files.formats.tables.table_reader import RowRange, TableReader
from fencepost.connectors.files.object_files import ObjectContent, ObjectTable, identity_in
from fencepost.connectors.files.stores.objects import is_object
from fencepost.connectors.rows.record_mapping import RecordColumns

_File = GrowingFile | ContentFile | TableFile

LOOKS_FOR_RENAMED: Final = 3
"""How many looks for files are waited for until a file that is not what it was is an error."""

LEAST_WAIT_SECONDS: Final = 10.0
"""The least time of that: after a look that finds the new name, tasks get new configurations."""

_log: Final = logging.getLogger(__name__)


class FileSourceTask(SourceTask):
    """Returns the complete records of its files."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._whole = False
        self._files: list[_File] = []
        # From the committed offsets of compressed files.
        self._restarts: dict[str, RestartPoint] = {}
        self._objects: dict[str, str | None] = {}
        # Of files, not of objects.
        self._tracks: dict[str, FileTrack] = {}
        # Files that are not what they were: until when they may turn out to be renamed, and what is wrong otherwise.
        self._suspects: dict[str, tuple[float, DataError]] = {}
        self._inodes = SeenInodes({}, 0.0)
        # Offsets to commit before anything else: those of renamed files, None for a name that has no file any more.
        self._changed: list[tuple[SourcePartition, SourceOffset | None]] = []
        self._readers: dict[str, ArrowReader] = {}
        # Of files whose end is in what was returned so far.
        self._ended: dict[str, Mark] = {}
        self._gone: list[str] = []

    def start(self, config: Config) -> None:
        """Start in each file after the last committed record."""
        self._parsed = FILE_SOURCE_CONFIG.parse(config)
        self._inferred = {SCHEMA: config[TASK_SCHEMA]} if TASK_SCHEMA in config else {}
        self._columns = declared_columns({**self._parsed, **self._inferred})
        self._after_end = AfterEnd(self._parsed[AFTER_END].lower())
        paths = cast("list[str]", json.loads(config[TASK_FILES]))
        formers: dict[str, list[str]] = json.loads(config[TASK_RENAMED]) if TASK_RENAMED in config else {}
        self._looks_s = LOOKS_FOR_RENAMED * self._parsed[POLL_INTERVAL] / 1000
        self._inodes = SeenInodes(json.loads(config[TASK_INODES]) if TASK_INODES in config else {}, self._looks_s)
        # An offset is adopted only where the connector knows what became of the file that had the name before.
        formers = {file: names for file, names in formers.items() if not self._inodes.is_unsure(file)}
        names = list(dict.fromkeys([*paths, *chain(*formers.values())]))
        offsets = self.context.offset_reader.offsets([{FILENAME_FIELD: name} for name in names])
        resumed = resume(paths, formers, dict(zip(names, offsets, strict=True)), self.context.allowed_paths)
        self._changed = resumed.changed
        # A former name may be used again.
        self._gone = [path for path in paths if path in resumed.abandoned and inode_at(path) is None]
        there = [path for path in paths if path not in self._gone]
        self._untold = set(there)
        self._files = [self._started(path, resumed.offsets[path]) for path in there]

    def _started(self, path: str, offset: SourceOffset | None) -> _File:
        mark = Mark.in_offset(offset)
        if mark is not None:
            if mark.is_at(path, self.context.allowed_paths):
                self._ended[path] = mark
            else:
                offset = None
        return self._new_file(path, offset)

    def _new_file(self, path: str, offset: SourceOffset | None) -> _File:
        allowed, batch_bytes = self.context.allowed_paths, self._parsed[BATCH_BYTES]
        if not is_object(path):
            self._tracks[path] = FileTrack(path, FileIdentity.in_offset(path, offset), allowed)
        if (form := table_format(self._parsed)) is not None:
            table = ObjectTable if is_object(path) else TableFile
            return table(path, form, TablePosition.of(path, offset), batch_bytes, allowed)
        if (restart := RestartPoint.of(path, offset)) is not None:
            self._restarts[path] = restart
        self._objects[path] = identity_in(offset)
        quoting = self._quoting
        plan: Planner = plan_lines if quoting is None else partial(_plan_csv, quoting)
        plan = partial(plan_with_last_return, plan)
        return GrowingFile(path, position_of(path, offset), plan, batch_bytes, allowed, quoting)

    @property
    def _quoting(self) -> Quoting | None:
        return dialect_of(self._parsed).quoting if self._format == "csv" else None

    @property
    def _format(self) -> str:
        return str(self._parsed[FORMAT]).lower()

    def poll(self) -> PollResult:
        """Return a batch of records of one file, or None after a second without any."""
        if self._changed:
            changed, self._changed = self._changed, []
            return SourceBatch(reader=LineReader(allowed=self.context.allowed_paths), offsets=changed, bytes=0)
        splits = wait_for(self._look, self._stopping)
        if not splits:
            return self._next_end()
        file = next(file for file in self._files if file.path == splits[0].path)
        return SourceBatch(
            reader=self._reader(file),
            splits=splits,
            offsets=[(file.partition, self._offset(file))],
            bytes=sum(split.size for split in splits),
        )

    def _offset(self, file: _File) -> dict[str, Any]:
        track = self._tracks.get(file.path)
        return {**file.offset, **(track.offset if track is not None else {}), **self._inferred}

    def commit(self) -> None:
        """Take away the files whose end is committed."""
        if self._after_end is not AfterEnd.LEAVE:
            self._take_away()

    def _take_away(self) -> None:
        for path, mark in self._ended.items():
            self._files = [file for file in self._files if file.path != path]
            if mark.is_at(path, self.context.allowed_paths):
                take_away(path, self._after_end, self._parsed[MOVE_TO])
                # Another file may get its name or its inode.
                self._changed.append(({FILENAME_FIELD: path}, None))
            self._gone.append(path)
        self._ended.clear()

    def _next_end(self) -> SourceBatch | None:
        """Return a batch that marks the end of a file that is to be taken away."""
        if self._after_end is AfterEnd.LEAVE:
            return None
        latest = time.time_ns() - self._parsed[SETTLE] * 1_000_000
        for file in self._files:
            if file.finished and file.path not in self._ended:
                mark = Mark.of(file.path, self.context.allowed_paths)
                if mark is not None and self._was_read(file, mark) and mark.modified <= latest:
                    self._ended[file.path] = mark
                    offset = {**self._offset(file), ENDED_FIELD: mark.in_json()}
                    return SourceBatch(reader=self._reader(file), offsets=[(file.partition, offset)], bytes=0)
        return None

    def _was_read(self, file: _File, mark: Mark) -> bool:
        track = self._tracks.get(file.path)
        return (
            track is not None
            and track.seen == (mark.inode, mark.modified, mark.size)
            and mark.size == file.looked_at_size
        )

    def _look(self) -> Sequence[FileRange | RowRange]:
        for path in [path for path in self._gone if os.path.exists(path)]:  # noqa: PTH110 - spares making a Path each time
            # Another file of that name.
            self._gone.remove(path)
            self._restarts.pop(path, None)
            self._untold.add(path)
            self._files.append(self._new_file(path, None))
        if self._untold:
            for i, file in enumerate(self._files):
                self._files[i] = self._told(file)
        for file in self._files:
            if file.path not in self._untold and file.path not in self._ended and (splits := self._advance(file)):
                return splits
        return []

    def _advance(self, file: _File) -> Sequence[FileRange | RowRange]:
        """Return the next records of a file, if it is the one that was read before.

        A file with a new name is given to a task by that name soon. Until then another file in its place is not an error.
        """
        if (suspect := self._suspects.get(file.path)) is not None:
            if self._whole or time.monotonic() >= suspect[0]:
                raise suspect[1]
            return []
        if self._inodes.has_another(file.path):
            return []
        track = self._tracks.get(file.path)
        try:
            if track is not None:
                self._inodes.check_start(file.path, track)
            splits: Sequence[FileRange | RowRange] = file.advance(whole=self._whole)
            if track is not None:
                self._inodes.check_seen(file.path, file.seen)
                track.follow(file.seen, _end(file) if splits else None)
                splits = [
                    replace(split, known=track.identity) if type(split) is FileRange else split for split in splits
                ]
        except DataError as error:
            if track is None or not self._may_be_told(file.path, track):
                raise
            wait_s = max(LEAST_WAIT_SECONDS, self._looks_s)
            self._suspects[file.path] = time.monotonic() + wait_s, error
            _log.info(
                "The path %s has another file now, or none. Waiting %g seconds in case the former one was renamed",
                file.path,
                wait_s,
            )
            return []
        return splits

    def _may_be_told(self, path: str, track: FileTrack) -> bool:
        return self._inodes.is_unsure(path) or (track.was_moved and not self._whole)

    def _told(self, file: _File) -> _File:
        """Return a file as what its first bytes say."""
        if file.path not in self._untold or isinstance(file, ContentFile) or self._inodes.has_another(file.path):
            return file
        if isinstance(file, TableFile):
            self._untold.remove(file.path)
            return file
        allowed, encoding = self.context.allowed_paths, codecs.lookup(self._parsed[ENCODING]).name
        of_store = is_object(file.path)
        if not of_store and file.is_missing(whole=self._whole):
            certain, codec = False, None
        else:
            certain, codec = codec_of(file.path, encoding, allowed)
        # A file that was read before had enough bytes then.
        if certain or file.position or self._whole or of_store:
            self._untold.remove(file.path)
        form = Form(codec, encoding)
        if (certain or of_store) and codec is None and (restart := self._restarts.get(file.path)) is not None:
            raise replaced(file.path, restart)
        if (form == Form(None) and not of_store) or file.path in self._untold:
            return file
        given = (
            file.path,
            file.position,
            form,
            self._quoting,
            self._parsed[BATCH_BYTES],
            allowed,
            self._restarts.get(file.path),
        )
        return ObjectContent(*given, self._objects.get(file.path)) if of_store else ContentFile(*given)

    def _reader(self, file: _File) -> ArrowReader:
        if not isinstance(file, ObjectContent):
            return self._new_reader(file)
        # An object has one header.
        if file.path not in self._readers:
            self._readers[file.path] = self._new_reader(file)
        return self._readers[file.path]

    def _new_reader(self, file: _File) -> ArrowReader:
        allowed = self.context.allowed_paths
        if self._format == "text":
            return LineReader(allowed=allowed)
        record = RecordColumns.from_values(self._parsed)
        if isinstance(file, TableFile):
            record.check(file.columns)
            return TableReader(file.form, file.columns, record, allowed)
        if self._format == "jsonl":
            return JsonLinesReader(cast("StructType", self._columns), record, allowed)
        dialect = dialect_of(self._parsed)
        names = None
        if self._parsed[HEADER]:
            names = read_header(self._head(file), dialect, allowed, declared=self._columns is not None)
        columns = self._columns or StructType([StructField(name, StringType()) for name in names or ()])
        if names is not None:
            names = match_header(
                file.path,
                names,
                columns,
                ignore_extra=self._parsed[EXTRA_COLUMNS].lower() == "ignore",
                ignore_case=not self._parsed[CASE_SENSITIVE],
            )
            record.check(columns)
        return CsvReader(
            columns=columns,
            record=record,
            allowed=allowed,
            file_columns=names or tuple(columns.names),
            header=names is not None,
            dialect=dialect,
            null_values=tuple(self._parsed[NULL_VALUE]) or ("",),
        )

    def _head(self, file: GrowingFile | ContentFile) -> FileRange:
        if isinstance(file, ContentFile):
            return head_of(file.path, file.form, self.context.allowed_paths)
        track = self._tracks.get(file.path)
        return FileRange(file.path, 0, file.position, known=track.identity if track is not None else None)

    def lag(self) -> float:
        """Return how many bytes of the files are left to poll, without those of files that are not what they were."""
        sure = (file for file in self._files if file.path not in self._suspects)
        return sum(file.lag for file in sure if not self._inodes.is_unsure(file.path))

    def stop(self) -> None:
        """Wake a blocked poll."""
        self._stopping.set()

    def at_end(self) -> bool:
        """Return whether all of every file was returned. The call itself means that the files are complete.

        Raises DataError if no file was found: a pattern that fits none is probably wrong, unless files are taken away.
        """
        self._whole = True
        if self._after_end is AfterEnd.LEAVE and not self._files:
            rows = " with a row" if self._parsed[SCHEMA] == INFER else ""
            raise DataError(
                f"No file{rows} fits {', '.join(self._parsed[FILES])}, so there is nothing to read: correct the property "
                f"{FILES}, or put the files there. Relative paths start at the worker's working directory"
            )
        # Files that are to be taken away are not in the list any more.
        return not self._changed and all(file.finished and self._after_end is AfterEnd.LEAVE for file in self._files)


def _end(file: _File) -> int:
    """Return up to which byte a file is known when records of it are returned."""
    return file.position if isinstance(file, GrowingFile) else file.looked_at_size


def _plan_csv(quoting: Quoting, file: FileIO, part: FileRange, size: int) -> list[FileRange]:
    return scan_records(file, part, size, quoting=quoting, split_bytes=SPLIT_BYTES)
