"""The machine below a PostgreSQL server: a disk for its log that a test fills, and a wall clock that a test moves."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from fencepost.embedded.postgres import EmbeddedPostgres

_CHUNK_BYTES = 1 << 20


class WalDisk:
    """A small file system in memory that has the log of a server alone. It is unmounted at the end of the block."""

    def __init__(self, folder: Path, size_mb: int) -> None:
        self._folder = folder
        self._size_mb = size_mb
        self._filler = folder / "filler"

    def take_over(self, server: EmbeddedPostgres) -> None:
        """Move the log of a server here that is stopped and keeps its data, as its documentation says to."""
        log, here = server.data_folder / "pg_wal", self._folder / "pg_wal"
        owner = log.stat()
        shutil.copytree(log, here)
        for path in (here, *here.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        shutil.rmtree(log)
        log.symlink_to(here)

    def fill(self) -> None:
        """Take all space that is left."""
        with self._filler.open("ab", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(_CHUNK_BYTES))
            except OSError:
                pass

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink()

    def __enter__(self) -> Self:
        self._folder.mkdir()
        size = f"size={self._size_mb}m,mode=755"
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self._folder)], check=False, capture_output=True
        )
        if mounted.returncode:
            pytest.skip("this user may not mount a file system")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        subprocess.run(["umount", "--lazy", str(self._folder)], check=True)


class MovableClock:
    """The wall clock of a server that is started with `programs`; its monotonic clock is the machine's."""

    def __init__(self, folder: Path, real: EmbeddedPostgres) -> None:
        """Put the programs of `real` into a folder that all users may enter, with a `postgres` that has this clock."""
        self._ahead = folder / "ahead"
        self.programs = folder / "bin"
        self.programs.mkdir(mode=0o755)
        for program in real.program("postgres").parent.iterdir():
            (self.programs / program.name).symlink_to(program)
        library = shutil.copy(_faketime(), folder)
        wrapped = self.programs / "postgres"
        wrapped.unlink()
        wrapped.write_text(
            "#!/bin/sh\n"
            f"export LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE={self._ahead} FAKETIME_NO_CACHE=1\n"
            "export FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1 FAKETIME_DISABLE_SHM=1\n"
            f'exec {real.program("postgres")} "$@"\n'
        )
        wrapped.chmod(0o755)
        self.move(0)

    def move(self, seconds: int) -> None:
        """Let the clock be so far ahead of the machine's, or behind it."""
        new = self._ahead.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._ahead)


def _faketime() -> Path:
    # Not imported: the package would start this process again with the library.
    spec = importlib.util.find_spec("libfaketime")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
