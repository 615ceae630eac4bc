"""Workers of one group with different settings of `exactly.once.source.support`, rolled under load."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import wait_for
from tests.support.running_tasks import RunningTasks, running
from tests.support.workers import Group, Worker

_WORKERS = 3
_WARNING = "Exactly-once delivery does not hold in this group"

# A worker is started ten times and more, which may take minutes on a busy machine.
pytestmark = pytest.mark.timeout(900)


def _breaking(worker: Worker) -> Any:
    return worker.get("/")["workers_breaking_exactly_once"]


def _waiting(worker: Worker, connector: str) -> set[str]:
    """The workers with a task that waits until the group is mended, according to one worker's status."""
    status = worker.get(f"/connectors/{connector}/status") or {"tasks": []}
    return {task["worker_id"] for task in status["tasks"] if "It starts automatically" in task.get("trace", "")}


def _uninitialized(worker: Worker, connector: str) -> set[bool]:
    """Whether tasks have no transactional id yet: {True}, {False}, or both values if the tasks differ."""
    found = worker.get(f"/connectors/{connector}/transactions") or {"tasks": []}
    return {task["state"] == "UNINITIALIZED" for task in found["tasks"] if "error" not in task}


class _Rolling:
    """Three workers that are restarted one after the other with a new value of exactly.once.source.support."""

    def __init__(self, group: Group, stack: ExitStack, support: str) -> None:
        self._group = group
        self._stack = stack
        self._supports = [support] * _WORKERS
        self.workers = [self._started(None, support) for _ in range(_WORKERS)]
        for worker in self.workers:
            worker.wait_until_healthy()

    def roll(self, support: str) -> None:
        for number in range(_WORKERS):
            self.restart(number, support)

    def restart(self, number: int, support: str) -> None:
        """Restart a worker, or start a killed one, and wait until all workers name the same disabled members."""
        worker = self.workers[number]
        if worker.process.running:
            worker.process.signal(signal.SIGTERM)
            assert worker.process.wait() == 0, worker.process.output
        self.workers[number] = self._started(worker.port, support)
        self.workers[number].wait_until_healthy()
        self._supports[number] = support
        breaking = self._urls("disabled") if "enabled" in self._supports else []
        for member in self.workers:
            if member.process.running:
                wait_for(lambda member=member: _breaking(member) == breaking, what=f"{member.id} names {breaking}")

    def _urls(self, support: str) -> list[str]:
        pairs = zip(self.workers, self._supports, strict=True)
        return sorted(f"{worker.url}/" for worker, own in pairs if own == support)

    def _started(self, port: int | None, support: str) -> Worker:
        return self._stack.enter_context(self._group.starting(port, exactly_once_source_support=support))


def test_tasks_wait_during_a_roll_while_a_member_breaks_the_guarantee(tmp_path: Path, bootstrap_servers: str) -> None:
    """No record is lost; exactly-once tasks do not start next to a worker that is disabled."""
    group = Group(tmp_path, bootstrap_servers)
    tasks = RunningTasks(group, bootstrap_servers, count=_WORKERS)
    with ExitStack() as stack:
        rolling = _Rolling(group, stack, "enabled")
        tasks.create(rolling.workers[0], support="requested")
        tasks.wait_until_shared(*rolling.workers)

        rolling.roll("disabled")
        tasks.wait_until_shared(*rolling.workers)

        rolling.restart(0, "enabled")
        enabled, *others = rolling.workers
        wait_for(
            lambda: (
                _waiting(enabled, tasks.name) == {enabled.id}
                and running(enabled, tasks.name) == {worker.id: 1 for worker in others}
            ),
            what="the task of the worker that is enabled waits, and the others run",
        )
        assert enabled.get("/")["exactly_once_source_support"] == "enabled"
        assert enabled.metric("fencepost_group_workers_breaking_exactly_once") == len(others)
        named = ", ".join(sorted(f"{worker.url}/" for worker in others))
        for worker in rolling.workers:
            worker.process.wait_for_output(f"{_WARNING}: the worker(s) {named} have")
        for number in range(1, _WORKERS):
            rolling.restart(number, "enabled")

        tasks.wait_until_shared(*rolling.workers)
        assert enabled.metric("fencepost_group_workers_breaking_exactly_once") == 0
        begin = tasks.sent()
        rolling.workers[0].process.kill()
        tasks.wait_until_elsewhere(*rolling.workers[1:])
        tasks.assert_exactly_once_between(begin, tasks.sent())
        tasks.assert_nothing_lost(rolling.workers[1])


def test_a_group_is_rolled_up_and_down_in_two_steps_with_no_task_that_waits(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    """No record is lost, none is doubled while all workers are enabled, and no member ever breaks the guarantee."""
    group = Group(tmp_path, bootstrap_servers)
    tasks = RunningTasks(group, bootstrap_servers, count=_WORKERS)
    with ExitStack() as stack:
        rolling = _Rolling(group, stack, "disabled")
        tasks.create(rolling.workers[0], support="requested")
        tasks.wait_until_shared(*rolling.workers)

        rolling.roll("preparing")
        tasks.wait_until_shared(*rolling.workers)
        wait_for(lambda: _uninitialized(rolling.workers[0], tasks.name) == {True}, what="no task has transactions yet")

        rolling.roll("enabled")
        tasks.wait_until_shared(*rolling.workers)
        wait_for(lambda: _uninitialized(rolling.workers[0], tasks.name) == {False}, what="all tasks have transactions")
        begin = tasks.sent()
        rolling.workers[0].process.kill()
        tasks.wait_until_elsewhere(*rolling.workers[1:])
        tasks.assert_exactly_once_between(begin, tasks.sent())

        rolling.roll("preparing")
        rolling.roll("disabled")
        tasks.wait_until_shared(*rolling.workers)
        assert not any(_WARNING in worker.process.output for worker in rolling.workers)
        tasks.assert_nothing_lost(rolling.workers[2])
