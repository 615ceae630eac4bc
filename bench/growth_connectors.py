"""The connectors of growth.py: idle tasks, and offsets in many source partitions."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from fencepost import SourceConnector, SourceRecord, SourceTask

POLL_SECONDS = 1.0
RECORDS = 5_000
"""The largest number of records that one poll returns."""


class IdleTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:  # noqa: ARG002 - SourceTask's signature
        self._stopping = threading.Event()

    def poll(self) -> list[SourceRecord] | None:
        self._stopping.wait(POLL_SECONDS)
        return None

    def stop(self) -> None:
        self._stopping.set()


class IdleConnector(SourceConnector):
    """Starts `tasks.max` tasks that have no data."""

    def task_class(self) -> type[SourceTask]:
        return IdleTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{"task": str(task)} for task in range(max_tasks)]


class PartitionsTask(IdleTask):
    """Commits an offset in each of `partitions` source partitions, with records for `topics`, and is idle then."""

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self._topics = int(config["topics"])
        self._left = list(range(int(config["partitions"])))

    def poll(self) -> list[SourceRecord] | None:
        numbers, self._left = self._left[:RECORDS], self._left[RECORDS:]
        if not numbers:
            return super().poll()
        return [
            SourceRecord(
                {"table": f"t{number}"},
                {"position": number},
                f"rows-{self._topics}-{number % self._topics}",
                value="row",
            )
            for number in numbers
        ]


class PartitionsConnector(SourceConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self._config = config

    def task_class(self) -> type[SourceTask]:
        return PartitionsTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        del max_tasks
        return [{name: self._config[name] for name in ("partitions", "topics")}]
