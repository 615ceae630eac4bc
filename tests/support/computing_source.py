"""A connector whose tasks compute during their start, and always once a file exists; they return no record."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from fencepost import SourceConnector, SourceRecord, SourceTask

_START_CPU_S = 0.02
_LOOK_S = 0.5
_COMPUTES = threading.Event()


class ComputingTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._file = Path(config["file"])
        self._stopping = threading.Event()
        ends = time.thread_time() + _START_CPU_S
        while time.thread_time() < ends:
            sum(range(1_000))

    def poll(self) -> list[SourceRecord] | None:
        # A check for a file lets other threads run, so no task checks once one has found it.
        if _COMPUTES.is_set():
            sum(range(1_000))
        elif self._file.exists():
            _COMPUTES.set()
        else:
            self._stopping.wait(_LOOK_S)
        return None

    def stop(self) -> None:
        self._stopping.set()


class ComputingConnector(SourceConnector):
    """Starts `tasks.max` tasks."""

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config

    def task_class(self) -> type[SourceTask]:
        return ComputingTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{"file": self._config["file"]}] * max_tasks
