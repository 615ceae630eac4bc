"""The jobs of tasks can be cancelled."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from fencepost.engine.spark.jobs import Jobs


class Session:
    """A Spark session without jobs, which records the cancelled job groups."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        java = SimpleNamespace(cancelJobGroupAndFutureJobs=self.cancelled.append)
        ignored = {name: lambda *_: None for name in ("setLocalProperty", "setJobGroup")}
        self.sparkContext: Any = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: java), **ignored)


def test_a_task_is_cancelled_whose_former_run_ended_after_its_own_began():
    jobs, session, never = Jobs(), Session(), threading.Event()
    former = jobs.running(session, "task", never)  # type: ignore[arg-type]
    former.__enter__()
    with jobs.running(session, "task", never):  # type: ignore[arg-type]
        former.__exit__(None, None, None)
        jobs.cancel("task")
    jobs.cancel("task")
    assert session.cancelled == ["task#1"]
