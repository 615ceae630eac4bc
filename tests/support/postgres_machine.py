"""The machine of a PostgreSQL server: a WAL disk that a test fills."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.postgres import Database
from tests.support.processes import wait_for

_CHUNK_BYTES = 1 << 20


def may_mount(folder: Path) -> bool:
    """Whether this user may mount a file system; tried with a folder that is made for that and removed."""
    folder.mkdir()
    mounted = _mount(folder, "size=1m").returncode == 0
    if mounted:
        _unmount(folder)
    folder.rmdir()
    return mounted


def fill_log(database: Database, disk: WalDisk) -> None:
    """Write to the WAL until the server ends because there is no space for it."""
    log = database.server.log_file
    written = log.stat().st_size
    disk.fill()

    def panicked() -> bool:
        with suppress(psycopg.OperationalError):
            database.execute("select pg_switch_wal(), pg_logical_emit_message(true, 'noise', repeat('x', 100000))")
        with log.open("rb") as lines:
            lines.seek(written)
            return any(b"PANIC" in line and b"No space left" in line for line in lines)

    wait_for(panicked, what="the server finds the disk full")


def answers(server: EmbeddedPostgres) -> bool:
    """Whether the server can write. A server that ended because it could not recover is started again."""
    if not server.running:
        server.start()
    try:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            connection.execute("create table answer(); drop table answer")
    except psycopg.OperationalError:
        return False
    return True


class WalDisk:
    """A small file system in memory for the WAL of a server. It is unmounted at the end of the block."""

    def __init__(self, folder: Path, size_mb: int) -> None:
        self._folder = folder
        self._size_mb = size_mb
        self._filler = folder / "filler"

    def take_over(self, server: EmbeddedPostgres) -> None:
        """Move the WAL of a stopped server here, as PostgreSQL's documentation says."""
        log, here = server.data_folder / "pg_wal", self._folder / "pg_wal"
        owner = log.stat()
        shutil.copytree(log, here)
        for path in (here, *here.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        shutil.rmtree(log)
        log.symlink_to(here)

    def fill(self) -> None:
        """Fill the remaining space."""
        with self._filler.open("ab", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(_CHUNK_BYTES))
            except OSError:
                pass

    def free(self) -> None:
        """Free the space again."""
        self._filler.unlink()

    def __enter__(self) -> Self:
        self._folder.mkdir()
        _mount(self._folder, f"size={self._size_mb}m,mode=755").check_returncode()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _unmount(self._folder)


def _mount(folder: Path, options: str) -> subprocess.CompletedProcess[bytes]:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True)


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
