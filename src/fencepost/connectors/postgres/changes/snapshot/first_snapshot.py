"""The first snapshot: reads tables in their state at the slot's position, in parallel on Spark's executors.

All readers adopt the snapshot that the slot's creation exported, so together they see the database at one moment, and
the stream continues exactly there. Meanwhile the tables are locked (see held_tables). A large table is read in ranges
of pages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv as pc

from fencepost.connectors.postgres.changes.connection import translated
from fencepost.connectors.postgres.changes.events.envelope import TableEvents
from fencepost.connectors.postgres.changes.held_tables import SnapshotSession
from fencepost.connectors.postgres.changes.slot.slot import PublishedTable
from fencepost.connectors.postgres.server.copy_blocks import copy_blocks
from fencepost.connectors.postgres.server.page_ranges import WHOLE_TABLE, PageRange, page_ranges
from fencepost.connectors.postgres.server.quoting import quoted

if TYPE_CHECKING:
    import psycopg

PAGE_BYTES: Final = 8192
_PAGES_PER_SPLIT: Final = 2048


def table_ranges(table: PublishedTable, server_version: int) -> list[PageRange]:
    """Return the page ranges in which a table is read."""
    return [WHOLE_TABLE] if table.partitioned else page_ranges(table.pages, _PAGES_PER_SPLIT, server_version)


@dataclass(frozen=True, slots=True)
class SnapshotRangeReader:
    """Reads ranges of one table in an exported snapshot, as change events whose `op` is r."""

    session: SnapshotSession
    lsn: int
    table: PublishedTable
    events: TableEvents

    @property
    def schema(self) -> str:
        """The columns of the events."""
        return self.events.schema

    @property
    def topics(self) -> tuple[str]:
        """The topic of all events."""
        return (self.events.topic,)

    def read(self, split: PageRange) -> Iterator[pa.RecordBatch]:
        """Yield the events of a range's rows. Raises RetriableError if the snapshot is gone, and DataError."""
        with self.session.connection() as connection:
            for block in text_blocks(connection, self._statement(split), self.table.name):
                texts = text_columns(block, len(self.events.columns))
                yield self.events.snapshot(texts, self.lsn, int(time.time() * 1000))

    def _statement(self, split: PageRange) -> str:
        table = self.table
        columns = ", ".join(quoted(column.name) for column in self.events.columns)
        where = f"{split.condition('ctid')} AND ({table.row_filter or 'true'})"
        return f"COPY (SELECT {columns} FROM {table.sql()} WHERE {where}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"  # noqa: S608


def text_blocks(connection: psycopg.Connection[Any], statement: str, name: str) -> Iterator[pa.Buffer]:
    """Yield the text of a COPY in blocks of complete rows. Raises RetriableError or PostgresError."""
    import psycopg  # noqa: PLC0415 - an optional package

    try:
        yield from copy_blocks(connection, statement)
    except psycopg.Error as error:
        raise translated(error, f"The snapshot of the table {name} could not be read") from error


def text_columns(block: pa.Buffer, count: int) -> Sequence[pa.Array]:
    """Return the columns of CSV rows as texts: a null is an empty field, and all other values are quoted."""
    names = [str(number) for number in range(count)]
    table = pc.read_csv(
        block,
        read_options=pc.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
        parse_options=pc.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pc.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [table[name].combine_chunks() for name in names]
