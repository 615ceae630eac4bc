"""A PostgreSQL server behind links that can be cut, with a disk that can be filled and a clock that can be changed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from fencepost.embedded.postgres import EmbeddedPostgres
from tests.chaos.soak.schedule import Action, Kind
from tests.support.fault_proxy import FaultProxy, Link
from tests.support.movable_clock import MovableClock, clocked_programs
from tests.support.postgres import Database
from tests.support.postgres_machine import WalDisk, answers, fill_log, may_mount
from tests.support.processes import wait_for

_WAL_SENDER_TIMEOUT = "4s"
_DISK_MB = 1024
_SETTINGS = {"wal_sender_timeout": _WAL_SENDER_TIMEOUT, "max_wal_size": "128MB", "max_connections": "60"}

Undo = Callable[[], None]


class Server:
    """The server, and all faults of the schedule that it can have."""

    def __init__(
        self, server: EmbeddedPostgres, clock: MovableClock, database: Database, proxy: FaultProxy, disk: WalDisk | None
    ) -> None:
        self.database = database
        self.proxy = proxy
        self._server = server
        self._clock = clock
        self._disk = disk

    def harm(self, action: Action) -> Undo:
        """Do an action; return the function that undoes it."""
        undo: Undo = _nothing
        match action.kind:
            case Kind.KILL_POSTGRES:
                self._server.kill()
                undo = self._start
            case Kind.CUT_POSTGRES:
                self.proxy.refuse()
                undo = self.proxy.heal
            case Kind.CUT_IN_BLOCK:
                self.proxy.cut_after = int(action.detail)
                undo = self._cut_no_more
            case Kind.END_SESSIONS:
                self._end_sessions()
            case Kind.STALL_POSTGRES if action.detail == "silent":
                # The server ends a stream if its client sends nothing for wal_sender_timeout.
                self.proxy.to_broker = Link.HOLD
                undo = self.proxy.heal
            case Kind.STALL_POSTGRES:
                undo = self._freeze_senders()
            case Kind.FILL_WAL_DISK if self._disk is not None:
                fill_log(self.database, self._disk)
                undo = self._free
            case Kind.MOVE_POSTGRES_CLOCK:
                self._clock.move(int(action.detail))
                undo = self._set_clock
        return undo

    def end_deadlocks(self) -> None:
        """End the sessions that wait for locks.

        PostgreSQL finds a deadlock by a timer. The timer of a session may not run any more after the clock was moved.
        """
        with contextlib.suppress(psycopg.OperationalError):
            self.database.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where wait_event_type = 'Lock' and backend_type = 'client backend'"
            )

    def _start(self) -> None:
        self._clock.begin()
        self._server.start()

    def _set_clock(self) -> None:
        self._clock.move(0)
        self.end_deadlocks()

    def _cut_no_more(self) -> None:
        self.proxy.cut_after = None

    def _end_sessions(self) -> None:
        with contextlib.suppress(psycopg.OperationalError):
            self.database.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where pid <> pg_backend_pid() and backend_type in ('client backend', 'walsender')"
            )

    def _freeze_senders(self) -> Undo:
        senders: list[int] = []
        with contextlib.suppress(psycopg.OperationalError):
            senders += [pid for (pid,) in self.database.execute("select pid from pg_stat_replication")]
        _signal(senders, signal.SIGSTOP)
        return lambda: _signal(senders, signal.SIGCONT)

    def _free(self) -> None:
        assert self._disk is not None
        self._disk.free()

        def recovered() -> bool:
            if not self._server.running:
                self._start()
            return answers(self._server)

        wait_for(recovered, what="the server recovers")


def _nothing() -> None:
    """Undo an action that ends by itself, or that was not done."""


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        # A server process ends with its connection.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def running_server(logs: Path, tell: Callable[[str], None]) -> Iterator[Server]:
    """Run a server; copy its log to `logs` at the end. Where nothing may be mounted, its disk is never full."""
    with contextlib.ExitStack() as stack:
        # A folder that every user may enter, unlike the soak's: the server of a root user runs as another user.
        folder = Path(tempfile.mkdtemp(prefix="fencepost-soak-postgres-"))
        stack.callback(shutil.rmtree, folder)
        folder.chmod(0o755)
        clock = MovableClock(folder / "clock")
        programs = clocked_programs(clock, folder / "bin", EmbeddedPostgres(folder / "real"))
        server = EmbeddedPostgres(folder / "server", settings=_SETTINGS, programs=programs).start()
        stack.callback(shutil.copy, server.log_file, logs / "postgres.log")
        disk = None
        if may_mount(folder / "disk"):
            server.stop()
            disk = stack.enter_context(WalDisk(folder / "disk", _DISK_MB))
            disk.take_over(server)
            clock.begin()
            server.start()
        else:
            tell("This user may not mount a file system: the disk of PostgreSQL's log is never full")
        stack.callback(server.stop)
        proxy = FaultProxy(server.port, framed=False).start()
        stack.callback(proxy.stop)
        yield Server(server, clock, Database.of_server(server), proxy, disk)
