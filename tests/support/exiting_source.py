"""A connector that calls sys.exit() in the method named by its property `in`."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from fencepost import SourceConnector, SourceTask


class ExitingConnector(SourceConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self._where = config["in"]
        self._reach("start")

    def task_class(self) -> type[SourceTask]:
        return ExitingTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        del max_tasks
        self._reach("task_configs")
        return [{"in": self._where}]

    def _reach(self, where: str) -> None:
        if where == self._where:
            sys.exit(3)


class ExitingTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        del config

    def poll(self) -> None:
        sys.exit(3)
