"""A connector that counts, written like an author's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fencepost import ConfigDef, SourceConnector, SourceRecord, SourceTask


class NumbersTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.topic = config["topic"]
        self.end = int(config["end"])
        committed = self.context.offset_reader.offset({"numbers": 1})
        self.number = committed["number"] if committed else 0
        self.acknowledged: list[Any] = []

    def poll(self) -> list[SourceRecord] | None:
        if self.number == self.end:
            time.sleep(0.02)
            return None
        first, self.number = self.number, min(self.number + 3, self.end)
        return [
            SourceRecord({"numbers": 1}, {"number": number}, self.topic, value=number)
            for number in range(first + 1, self.number + 1)
        ]

    def commit_record(self, record: SourceRecord, metadata: object) -> None:
        del metadata
        self.acknowledged.append(record.value)

    def at_end(self) -> bool:
        return self.number == self.end


class NumbersConnector(SourceConnector):
    def config(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("topic", ConfigDef.Type.STRING, documentation="The topic of the numbers.")
            .define("end", ConfigDef.Type.INT, 1000, documentation="The last number.")
        )

    def task_class(self) -> type[SourceTask]:
        return NumbersTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        del max_tasks
        return [{"end": "1000", **self.context.configs()}]
