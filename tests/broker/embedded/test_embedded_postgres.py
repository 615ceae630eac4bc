"""The embedded PostgreSQL: its data persist, its errors say what to do, and it never outlives its parent process."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from fencepost.embedded.errors import DataDirError, PortTakenError, PostgresStartError
from fencepost.embedded.ports import free_ports, is_listening
from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.postgres import Database
from tests.support.processes import Process, wait_for


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's: the server of a root user runs as another user."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def count(server: EmbeddedPostgres) -> int:
    with psycopg.connect(server.conninfo()) as connection:
        row = connection.execute("select count(*) from t").fetchone()
    assert row is not None
    return int(row[0])


def test_a_started_server_decodes_changes_for_pgoutput(database: Database) -> None:
    database.execute("create table t(id int primary key)")
    database.execute("create publication p for table t")
    database.execute("select pg_create_logical_replication_slot('s_' || current_database(), 'pgoutput')")
    database.execute("insert into t values (1)")

    changes = database.execute(
        "select get_byte(data, 0) from pg_logical_slot_get_binary_changes("
        "'s_' || current_database(), null, null, 'proto_version', '1', 'publication_names', 'p')"
    )
    database.execute("select pg_drop_replication_slot('s_' || current_database())")

    # The messages: Begin, Relation, Insert, Commit.
    assert "".join(chr(kind) for (kind,) in changes) == "BRIC"


def test_the_command_runs_a_server_that_ends_with_it(folder: Path) -> None:
    (port,) = free_ports(1)
    arguments = ("postgres", "--port", str(port), "--data-dir", str(folder / "data dir"))
    with Process.fencepost(*arguments, log_file=folder / "log") as command:
        command.wait_for_output(f"PostgreSQL listens on 127.0.0.1:{port}, as user postgres")
        command.wait_for_output("Ctrl-C stops it")
        shell = re.search("Its shell: (.*)", command.output)
        assert shell is not None
        psql = [*shlex.split(shell[1]), "-c"]
        subprocess.run([*psql, "create table t as select generate_series(1, 3) as id"], check=True)
        command.signal(signal.SIGINT)
        assert command.wait() == 0
    assert not is_listening(port)

    with Process.fencepost(*arguments, log_file=folder / "log2") as command:
        command.wait_for_output("Ctrl-C stops it")
        assert (
            "\n     3\n" in subprocess.run([*psql, "select count(*) from t"], check=True, stdout=-1, text=True).stdout
        )
        with Process.fencepost(*arguments, log_file=folder / "log3") as second:
            assert second.wait() == 2
        assert f"port {port} of 127.0.0.1 is taken" in second.output
        command.signal(signal.SIGTERM)
        assert command.wait() == 0


def test_rows_are_still_there_after_a_kill_and_on_a_standby(folder: Path) -> None:
    primary = EmbeddedPostgres(folder / "prïmary").start()
    standby = EmbeddedPostgres(folder / "standby", settings={"hot_standby": "on"})
    try:
        with psycopg.connect(primary.conninfo(), autocommit=True) as connection:
            connection.execute("create table t as select generate_series(1, 1000) as id")
            primary.kill()
            assert not primary.running
            primary.start()
        assert count(primary) == 1000

        standby.base_backup(primary, "--write-recovery-conf")
        standby.start()
        with psycopg.connect(primary.conninfo(), autocommit=True) as connection:
            connection.execute("insert into t values (1001)")
        wait_for(lambda: count(standby) == 1001, what="the standby has the new row")

        primary.restart()
        assert count(primary) == 1001
    finally:
        standby.stop()
        primary.stop()
    assert (folder / "prïmary" / "data" / "PG_VERSION").exists()


def test_a_temporary_data_folder_is_deleted_at_the_end() -> None:
    with EmbeddedPostgres() as server:
        folder = server.data_folder
        assert (folder / "PG_VERSION").exists()

    assert not folder.parent.exists()
    assert not is_listening(server.port)


def test_the_obstacle_to_a_start_is_named(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} .*choose another port"):
            EmbeddedPostgres(folder, port=port).start()
    with pytest.raises(PostgresStartError, match=r'FATAL: .*unrecognized configuration parameter "no_such"'):
        EmbeddedPostgres(folder, settings={"no_such": "1"}).start()
    (folder / "file").touch()
    with pytest.raises(DataDirError, match="cannot write to PostgreSQL's data folder"):
        EmbeddedPostgres(folder / "file" / "below").start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another user")
def test_a_folder_closed_to_the_user_of_the_server_is_refused(folder: Path) -> None:
    folder.chmod(0o700)

    with pytest.raises(DataDirError, match="other users cannot enter"):
        EmbeddedPostgres(folder / "data").start()


def test_a_server_ends_with_a_process_that_is_killed(folder: Path) -> None:
    script = (
        "import threading, time; from pathlib import Path; from fencepost.embedded.postgres import EmbeddedPostgres\n"
        f"server = EmbeddedPostgres(Path({str(folder / 'data')!r}))\n"
        # The kernel must not take the end of the thread that started it for its parent's.
        "thread = threading.Thread(target=server.start); thread.start(); thread.join()\n"
        "assert server.running\n"
        "print('pid', server.pid, flush=True); time.sleep(600)"
    )
    with Process([sys.executable, "-c", script], folder / "log") as starter:
        starter.wait_for_output("pid")
        pid = int(starter.output.split()[-1])
        os.kill(pid, 0)
        starter.kill()

        wait_for(lambda: not Path(f"/proc/{pid}").exists(), what="the server is gone")
