"""A source whose tasks all read the source partition `{"file": "shared"}`, unless `shared` is false."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from fencepost import ConfigDef, SourceConnector, SourceRecord, SourceTask

_IDLE_SECONDS = 0.05


class OverlappingConnector(SourceConnector):
    def config(self) -> ConfigDef:
        return ConfigDef().define("topic", ConfigDef.Type.STRING).define("shared", ConfigDef.Type.BOOLEAN, True)

    def task_class(self) -> type[SourceTask]:
        return OverlappingTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        config = self.context.configs()
        shared = config.get("shared") != "false"
        return [{"topic": config["topic"], "file": "shared" if shared else str(task)} for task in range(max_tasks)]


class OverlappingTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._topic, self._partition, self._position = config["topic"], {"file": config["file"]}, 0
        self._stopped = threading.Event()

    def poll(self) -> Sequence[SourceRecord] | None:
        self._stopped.wait(_IDLE_SECONDS)
        self._position += 1
        return [SourceRecord(self._partition, {"position": self._position}, self._topic, str(self._position))]

    def stop(self) -> None:
        self._stopped.set()
