"""K1, C7: workers of one group with different settings of `exactly.once.source.support`, rolled under load."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.processes import wait_for
from tests.support.running_tasks import RunningTasks, running
from tests.support.workers import Group, Worker


def _breaking(worker: Worker) -> Any:
    return worker.get("/")["workers_breaking_exactly_once"]


def _trace(worker: Worker, connector: str, task: int) -> str:
    status = worker.get(f"/connectors/{connector}/tasks/{task}/status") or {}
    return str(status.get("trace", ""))


def test_tasks_wait_while_a_member_breaks_the_guarantee_and_start_by_themselves_when_it_is_gone(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    """K1, C7."""
    group = Group(tmp_path, bootstrap_servers)
    tasks = RunningTasks(group, bootstrap_servers, count=2)
    with group.worker() as sound, group.worker(exactly_once_source_support="disabled") as breaking:
        for worker in (sound, breaking):
            wait_for(lambda worker=worker: _breaking(worker) == [f"{breaking.url}/"], what="the worker names it")
        assert breaking.get("/")["exactly_once_source_support"] == "disabled"
        assert sound.metric("fencepost_group_workers_breaking_exactly_once") == 1
        assert "WARNING" in sound.process.output

        tasks.create(sound, support="requested")
        wait_for(
            lambda: any("It starts by itself" in _trace(sound, tasks.name, task) for task in range(2)),
            what="the task of the worker that is enabled waits",
        )
        assert sound.id not in running(sound, tasks.name)

        breaking.process.signal(signal.SIGTERM)
        assert breaking.process.wait() == 0
        tasks.wait_until_shared(sound)
        assert _breaking(sound) == []
        assert sound.metric("fencepost_group_workers_breaking_exactly_once") == 0

        # A downgrade in one step: the tasks that wait meanwhile run when all have taken it.
        with group.worker(breaking.port, exactly_once_source_support="disabled") as first:
            sound.process.signal(signal.SIGTERM)
            assert sound.process.wait() == 0
            with group.worker(sound.port, exactly_once_source_support="disabled") as second:
                tasks.wait_until_shared(first, second)
                assert _breaking(second) == []
                tasks.assert_nothing_lost(second)


class _Rolling:
    """Three workers that are restarted one after the other with another setting."""

    def __init__(self, group: Group, stack: ExitStack, support: str) -> None:
        self._group = group
        self._stack = stack
        self.workers = [self._started(None, support) for _ in range(3)]
        for worker in self.workers:
            worker.wait_until_healthy()

    def roll(self, support: str) -> None:
        for number, worker in enumerate(self.workers):
            worker.process.signal(signal.SIGTERM)
            assert worker.process.wait() == 0, worker.process.output
            self.workers[number] = self._started(worker.port, support)
            self.workers[number].wait_until_healthy()

    def _started(self, port: int | None, support: str) -> Worker:
        return self._stack.enter_context(self._group.starting(port, exactly_once_source_support=support))


def test_a_group_is_rolled_up_and_down_under_load_and_keeps_what_each_step_promises(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    """C7: nothing is ever lost, and nothing is doubled while all workers are enabled."""
    group = Group(tmp_path, bootstrap_servers)
    tasks = RunningTasks(group, bootstrap_servers, count=3)
    with ExitStack() as stack:
        rolling = _Rolling(group, stack, "disabled")
        tasks.create(rolling.workers[0], support="requested")
        tasks.wait_until_shared(*rolling.workers)

        rolling.roll("preparing")
        rolling.roll("enabled")
        tasks.wait_until_shared(*rolling.workers)
        begin = tasks.sent()
        rolling.workers[0].process.kill()
        tasks.wait_until_elsewhere(*rolling.workers[1:])
        rolling.workers[0] = stack.enter_context(group.worker(rolling.workers[0].port))
        tasks.wait_until_shared(*rolling.workers)
        tasks.assert_exactly_once_between(begin, tasks.sent())

        rolling.roll("preparing")
        rolling.roll("disabled")
        tasks.wait_until_shared(*rolling.workers)
        tasks.assert_nothing_lost(rolling.workers[2])
