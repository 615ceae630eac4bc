"""Rows of COPY in blocks, from a real server, compared with psycopg's rows."""

from __future__ import annotations

import psycopg
import pytest

from fencepost.connectors.postgres.server.copy_blocks import copy_blocks
from tests.support.postgres import Database

# Row lengths: one longer than a block, and some whose length bytes look like the beginning of a row.
ROWS = (
    "copy (select i, repeat('d', case i when 700 then 300000 when 701 then 25588 when 702 then 25590 else i % 90 end), null, "
    "'' from generate_series(1, 3000) i) to stdout (format csv)"
)


def read(database: Database, statement: str, block_bytes: int = 16_384) -> list[bytes]:
    with database.connect() as connection:
        return [bytes(block) for block in copy_blocks(connection, statement, block_bytes)]


@pytest.mark.parametrize("block_bytes", [1, 16_384, 1 << 20])
def test_blocks_have_the_rows_that_psycopg_reads(database: Database, block_bytes: int) -> None:
    with database.connect() as connection, connection.cursor().copy(ROWS.encode()) as copy:
        expected = b"".join(bytes(row) for row in copy)
    blocks = read(database, ROWS, block_bytes)
    assert b"".join(blocks) == expected
    assert all(block.endswith(b"\n") for block in blocks)
    assert len(blocks) > 1 or block_bytes == 1 << 20


def test_no_rows_give_no_blocks(database: Database) -> None:
    assert read(database, "copy (select 1 where false) to stdout (format csv)") == []


def test_errors_are_psycopg_errors_before_and_after_the_first_row(database: Database) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable, match="nowhere"):
        read(database, "copy (select * from nowhere) to stdout (format csv)")
    with pytest.raises(psycopg.errors.DivisionByZero, match="division by zero"):
        read(database, "copy (select 1 / (2000 - i) from generate_series(1, 3000) i) to stdout (format csv)")


def test_a_broken_connection_is_an_operational_error(database: Database) -> None:
    endless = "copy (select repeat('x', 1000), generate_series(1, 1000000000)) to stdout (format csv)"
    with database.connect() as connection:
        blocks = copy_blocks(connection, endless)
        next(blocks)
        database.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            for _ in blocks:
                pass


def test_a_connection_with_rows_left_is_closed(database: Database) -> None:
    with database.connect() as connection:
        blocks = copy_blocks(connection, ROWS, 1000)
        assert next(blocks)
        blocks.close()
        assert connection.closed
