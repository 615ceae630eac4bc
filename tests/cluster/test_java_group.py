"""A connector in Java with several tasks, in a group of two workers of which one is killed."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

import psutil

from tests.support.checker import assert_exactly_once, read_offsets, read_topic
from tests.support.java_connectors import Connectors, with_java
from tests.support.java_plugins import plugin_path
from tests.support.java_runs import jvms
from tests.support.processes import wait_for
from tests.support.running_tasks import running
from tests.support.topics import Topics
from tests.support.workers import Group

COUNTERS, LIMIT = "abcd", 400


def test_java_tasks_of_a_killed_worker_go_on_elsewhere_with_nothing_lost_or_doubled(
    tmp_path: Path, topics: Topics, bootstrap_servers: str
):
    group = Group(tmp_path, bootstrap_servers, plugin_path=str(plugin_path(tmp_path, "hostile")))
    topic, gate = topics.create(), tmp_path / "gate"
    more = {"tasks.max": "8", "exactly.once.support": "required"}

    def keys() -> list[bytes | None]:
        return [record.key for record in read_topic(bootstrap_servers, topic)]

    with ExitStack() as stack:
        left, killed = (stack.enter_context(with_java(group)) for _ in range(2))
        for worker in (left, killed):
            worker.wait_until_healthy()
        connectors = stack.enter_context(closing(Connectors(left)))
        name = connectors.hostile(topic, "", counters=",".join(COUNTERS), limit=str(LIMIT), gate=str(gate), **more)
        shares = {left.id: 2, killed.id: 2}
        wait_for(lambda: running(left, name) == shares, what="two tasks on each worker")
        abandoned = jvms(killed.process.pid)
        assert abandoned
        gate.touch()
        # Past the gate, at 3, each task commits one number after the other.
        wait_for(lambda: {b"%c10" % ord(counter) for counter in COUNTERS} <= set(keys()), what="all tasks count")
        killed.process.kill()
        assert len(keys()) < len(COUNTERS) * LIMIT
        wait_for(lambda: len(keys()) >= len(COUNTERS) * LIMIT, what="all numbers")
        assert running(left, name) == {left.id: len(COUNTERS)}
        # A JVM ends with its worker.
        psutil.wait_procs(abandoned, timeout=60)
        assert not any(one.is_running() for one in abandoned)

    for counter in COUNTERS:
        expected = [f"{counter}{number}".encode() for number in range(1, LIMIT + 1)]
        assert_exactly_once([key for key in keys() if (key or b"").startswith(counter.encode())], expected)
    offsets = read_offsets(bootstrap_servers, f"{group.id}-offsets", name)
    assert sorted((partition["counter"], offset) for partition, offset in offsets) == [
        (counter, {"number": LIMIT}) for counter in COUNTERS
    ]
