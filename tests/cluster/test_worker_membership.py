"""Workers join, leave, die and come back while tasks run, as separate processes, and every record is counted."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.running_tasks import RunningTasks
from tests.support.workers import Group


@pytest.mark.parametrize("protocol", ["eager", "compatible", "sessioned"])
def test_tasks_deliver_exactly_once_while_workers_leave_die_and_join(
    tmp_path: Path, bootstrap_servers: str, protocol: str
) -> None:
    group = Group(tmp_path, bootstrap_servers, connect_protocol=protocol)
    tasks = RunningTasks(group, bootstrap_servers, count=6)
    with ExitStack() as stack:
        leader, second, third = stack.enter_context(group.workers(3))
        tasks.create(third)
        tasks.wait_until_shared(leader, second, third)

        second.process.signal(signal.SIGTERM)
        assert second.process.wait() == 0
        assert "Traceback" not in second.process.output
        tasks.wait_until_shared(leader, third)

        leader.process.kill()
        tasks.wait_until_shared(third)

        again = [stack.enter_context(group.starting(worker.port)) for worker in (leader, second)]
        tasks.wait_until_shared(third, *again)

        tasks.assert_exactly_once(third)
        assert "Traceback" not in third.process.output
