"""A worker that shares one core with a busy process stays in its group while many tasks start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.processes import wait_for
from tests.support.raw_kafka import RawKafka
from tests.support.topics import unique
from tests.support.workers import Group, Worker

CONNECTORS = 10
TASKS = 20
SESSION_MS = 10_000


@contextmanager
def shared_core(worker: Worker) -> Iterator[None]:
    """Keep all threads of a worker on one core, together with a process in a busy loop."""
    core = min(os.sched_getaffinity(0))
    # Affinity belongs to threads, and new threads inherit it.
    for thread in Path(f"/proc/{worker.process.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})
    endless = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", endless]) as burner:
        try:
            yield
        finally:
            burner.kill()


def test_the_heartbeat_of_a_worker_is_not_starved_by_tasks_on_a_busy_core(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    group = Group(tmp_path, bootstrap_servers, session_timeout_ms=str(SESSION_MS))
    name, file = unique("computes"), tmp_path / "compute"
    names = [f"{name}-{number}" for number in range(CONNECTORS)]
    config = {
        "connector.class": "tests.support.computing_source.ComputingConnector",
        "tasks.max": str(TASKS),
        "file": str(file),
    }
    with closing(RawKafka(bootstrap_servers)) as broker, group.worker() as worker, shared_core(worker):

        def running() -> int:
            return sum(state == "RUNNING" for connector in names for state in worker.states(connector)[1:])

        def lost() -> bool:
            return "is out of its group" in worker.process.output or broker.members(group.id) != {member}

        (member,) = broker.members(group.id)
        for connector in names:
            assert worker.request("PUT", f"/connectors/{connector}/config", config).status == 201
        wait_for(lambda: running() == CONNECTORS * TASKS, 600, what="all tasks run")
        assert not lost()

        file.touch()
        three_sessions_later = time.monotonic() + 3 * SESSION_MS / 1000
        wait_for(lambda: lost() or time.monotonic() > three_sessions_later)
        assert not lost()
