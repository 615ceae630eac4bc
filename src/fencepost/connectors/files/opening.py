"""Decides how each file of a task is read: as text, decompressed or decoded, as a table, or as an object of a store."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from functools import partial
from io import BytesIO, FileIO
from typing import Any

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError
from fencepost.api.record import SourceOffset
from fencepost.connectors.files.config import AFTER_END, BATCH_BYTES, ENCODING, FORMAT, dialect_of, table_format
from fencepost.connectors.files.content.altered import check_row_begins
from fencepost.connectors.files.content.codecs.compression import Codec, Form, codec_in
from fencepost.connectors.files.content.compressed import ContentFile
from fencepost.connectors.files.content.csv_quotes import Quoting
from fencepost.connectors.files.content.growing import (
    SPLIT_BYTES,
    GrowingFile,
    Planner,
    plan_lines,
    plan_with_last_return,
    position_of,
)
from fencepost.connectors.files.content.identity import FileIdentity, FileTrack
from fencepost.connectors.files.content.origin import identity_in, is_at_end, origin_of
from fencepost.connectors.files.content.ranges import FileRange, open_file, scan_records
from fencepost.connectors.files.content.restart_point import RestartPoint, replaced
from fencepost.connectors.files.discovery.ended import AfterEnd, Mark
from fencepost.connectors.files.formats.tables.table_file import TableFile, TablePosition
from fencepost.connectors.files.stores.objects import is_object
from fencepost.connectors.files.tracked import FileState, TrackedFile


class Opening:
    """Opens the files of a task according to a connector's properties."""

    def __init__(self, parsed: Mapping[str, Any], allowed: AllowedPaths) -> None:
        self._allowed = allowed
        self._table = table_format(parsed)
        self._takes_away = parsed[AFTER_END].lower() != AfterEnd.LEAVE
        self._batch_bytes: int = parsed[BATCH_BYTES]
        self._encoding = codecs.lookup(parsed[ENCODING]).name
        self._quoting = dialect_of(parsed).quoting if parsed[FORMAT].lower() == "csv" else None
        plan: Planner = plan_lines if self._quoting is None else partial(_plan_csv, self._quoting)
        self._plan: Planner = partial(plan_with_last_return, plan)

    def started(self, path: str, offset: SourceOffset | None) -> TrackedFile:
        """Return a file, positioned at its committed offset.

        Raises DataError for an offset that was not written by a file source.
        """
        mark = Mark.in_offset(offset)
        if mark is not None and not mark.is_at(path, self._allowed):
            # The file at the path is no longer the file that the mark belongs to.
            mark = offset = None
        tracked = self.new(path, offset)
        if mark is not None and self._takes_away:
            tracked.mark, tracked.state = mark, FileState.ENDED
        return tracked

    def gone(self, path: str) -> TrackedFile:
        """Return a tracked file for a name whose file was renamed."""
        tracked = self.new(path, None)
        tracked.state = FileState.GONE
        return tracked

    def new(self, path: str, offset: SourceOffset | None) -> TrackedFile:
        """Return a file whose first bytes were not read yet, or an object that was read to its end.

        Raises DataError as `started` does.
        """
        begun = offset is not None
        track = None if is_object(path) else FileTrack(path, FileIdentity.in_offset(path, offset), self._allowed)
        if self._table is not None:
            position, origin = TablePosition.of(path, offset), origin_of(path, self._allowed)
            table = TableFile(origin, self._table, position, self._batch_bytes, self._allowed)
            return TrackedFile(path, table, begun, track=track)
        start, restart = position_of(path, offset), RestartPoint.of(path, offset)
        file = GrowingFile(path, start, self._plan, self._batch_bytes, self._allowed, self._quoting)
        tracked = TrackedFile(path, file, begun, track=track, restart=restart, identity=identity_in(offset))
        if is_at_end(path, offset):
            tracked.file = content = self._content(tracked, start, Form(None, self._encoding))
            content.skip()
            tracked.state = FileState.FOLLOWED
        return tracked

    def _content(self, tracked: TrackedFile, position: int, form: Form) -> ContentFile:
        origin = origin_of(tracked.path, self._allowed, tracked.identity)
        return ContentFile(origin, position, form, self._quoting, self._batch_bytes, self._allowed, tracked.restart)

    def identify(self, tracked: TrackedFile, *, whole: bool) -> None:
        """Choose how to read a NEW file, by its first bytes; the file stays NEW while it has too few bytes.

        `whole` means that the file is complete.

        Raises DataError for an uncompressed file that was compressed when it was read before.
        """
        if self._table is not None:
            tracked.become(FileState.FOLLOWED)
            return
        of_store, file = is_object(tracked.path), tracked.file
        local = file if not of_store and isinstance(file, GrowingFile) else None
        known = tracked.track.identity if tracked.track is not None and not self._takes_away else None
        if local is not None and local.is_unchanged(known):
            return
        try:
            certain, codec = self._codec_of(tracked.path, local)
        except DataError:
            if local is None:
                raise
            if local.is_missing(whole=whole):
                return
            # A new file may have appeared since the first attempt, for example after a log rotation.
            certain, codec = self._codec_of(tracked.path, local)
        position: int = file.offset["position"]
        if (certain or of_store) and codec is None and tracked.restart is not None:
            raise replaced(tracked.path, tracked.restart)
        # If the file was already partly read, it had enough first bytes to decide how to read it.
        if not (certain or position or whole or of_store):
            return
        form = Form(codec, self._encoding)
        if form != Form(None) or of_store:
            tracked.file = self._content(tracked, position, form)
        elif tracked.begun and tracked.track is not None and tracked.track.identity is None:
            self._check_unbound(tracked.path, position)
        tracked.become(FileState.FOLLOWED)

    def _check_unbound(self, path: str, position: int) -> None:
        """Raise DataError if a position that was committed without an identity is within a row of the file at the path.

        A user may set an offset before its file exists. Then the position was not checked yet.
        """
        with open_file(path, self._allowed) as opened:
            check_row_begins(path, opened, position)

    def _codec_of(self, path: str, local: GrowingFile | None) -> tuple[bool, Codec | None]:
        with open_file(path, self._allowed) as opened:
            return codec_in(opened if local is None else local.was_opened(opened), path, self._encoding)


def _plan_csv(quoting: Quoting, file: FileIO | BytesIO, part: FileRange, size: int) -> list[FileRange]:
    return scan_records(file, part, size, quoting=quoting, split_bytes=SPLIT_BYTES)
