"""docs/architecture.md lists all modules that the data of a polled batch pass through, in order."""

from __future__ import annotations

from tests.support.data_path import Trace, listed_modules
from tests.support.processes import wait_for
from tests.support.task_runner import TaskRunner, stop
from tests.support.topics import Topics

_MOST = 22


def test_the_data_of_a_polled_batch_pass_the_listed_modules_in_order(runner: TaskRunner, topics: Topics, name: str):
    task, seen = runner.task(name, topics.create(partitions=3), {"messages.per.poll": 12, "limit": 12})
    trace = Trace(f"key-{name}", f"value-{name}")
    seen.on_poll = lambda _, records: (trace.begin() if records else None, records)[1]
    seen.on_commit = lambda _: trace.end()
    task.start()
    wait_for(lambda: seen.commits)
    stop(task)
    listed = listed_modules("The data path of a polled batch")
    assert trace.in_order() == listed
    assert len(listed) <= _MOST
