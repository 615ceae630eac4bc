"""Creates the readers of a task's files, which read the rows of a batch in the worker or on executors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pyspark.sql.types import StringType, StructField, StructType

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.record import ArrowReader
from fencepost.connectors.files.config import CASE_SENSITIVE, EXTRA_COLUMNS, FORMAT, HEADER, NULL_VALUE, dialect_of
from fencepost.connectors.files.content.compressed import ContentFile
from fencepost.connectors.files.content.held import head_of
from fencepost.connectors.files.content.ranges import FileRange
from fencepost.connectors.files.formats.csv_reader import CsvReader, match_header, read_header
from fencepost.connectors.files.formats.jsonl_reader import JsonLinesReader
from fencepost.connectors.files.formats.line_reader import LineReader
from fencepost.connectors.files.formats.tables.table_file import TableFile
from fencepost.connectors.files.formats.tables.table_reader import TableReader
from fencepost.connectors.files.stores.objects import is_object
from fencepost.connectors.files.tracked import TrackedFile
from fencepost.connectors.rows.record_mapping import RecordColumns


class Readers:
    """Creates readers according to a connector's properties. Readers of files with the same columns are equal.

    `columns` is None if each file defines its columns itself.
    """

    def __init__(self, parsed: Mapping[str, Any], columns: StructType | None, allowed: AllowedPaths) -> None:
        self._parsed = parsed
        self._columns = columns
        self._allowed = allowed
        # The header of the current object is read only once, because an object never changes.
        self._of_object: dict[str, ArrowReader] = {}

    @property
    def of_nothing(self) -> ArrowReader:
        """A reader for a batch that contains only offsets."""
        return LineReader(allowed=self._allowed)

    def of(self, tracked: TrackedFile) -> ArrowReader:
        """Return the reader for the records of a file. Raises DataError for a header that does not fit."""
        if not (isinstance(tracked.file, ContentFile) and is_object(tracked.path)):
            return self._new(tracked)
        if tracked.path not in self._of_object:
            self._of_object = {tracked.path: self._new(tracked)}
        return self._of_object[tracked.path]

    def _new(self, tracked: TrackedFile) -> ArrowReader:
        form, file = self._parsed[FORMAT].lower(), tracked.file
        if form == "text":
            return self.of_nothing
        record = RecordColumns.from_values(self._parsed)
        if isinstance(file, TableFile):
            record.check(file.columns)
            return TableReader(file.form, file.columns, record, self._allowed)
        if form == "jsonl":
            return JsonLinesReader(cast("StructType", self._columns), record, self._allowed)
        return self._csv(tracked, record)

    def _csv(self, tracked: TrackedFile, record: RecordColumns) -> CsvReader:
        dialect, names = dialect_of(self._parsed), None
        if self._parsed[HEADER]:
            names = read_header(self._head(tracked), dialect, self._allowed, declared=self._columns is not None)
        columns = self._columns or StructType([StructField(name, StringType()) for name in names or ()])
        if names is not None:
            names = match_header(
                tracked.path,
                names,
                columns,
                ignore_extra=self._parsed[EXTRA_COLUMNS].lower() == "ignore",
                ignore_case=not self._parsed[CASE_SENSITIVE],
            )
            record.check(columns)
        return CsvReader(
            columns=columns,
            record=record,
            allowed=self._allowed,
            file_columns=names or tuple(columns.names),
            header=names is not None,
            dialect=dialect,
            null_values=tuple(self._parsed[NULL_VALUE]) or ("",),
        )

    def _head(self, tracked: TrackedFile) -> FileRange:
        file, track = tracked.file, tracked.track
        if isinstance(file, ContentFile):
            return head_of(file.path, file.form, self._allowed)
        end = tracked.end
        return FileRange(tracked.path, 0, end, known=track.identity if track is not None else None)
