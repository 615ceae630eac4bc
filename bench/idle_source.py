"""A source without data, so that only the worker's own cost of a task remains."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from fencepost import SourceConnector, SourceTask

POLL_SECONDS = 1.0


class IdleTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:  # noqa: ARG002 - SourceTask's signature
        self._stopping = threading.Event()

    def poll(self) -> None:
        self._stopping.wait(POLL_SECONDS)

    def stop(self) -> None:
        self._stopping.set()


class IdleConnector(SourceConnector):
    def task_class(self) -> type[SourceTask]:
        return IdleTask
