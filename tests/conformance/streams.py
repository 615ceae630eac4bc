"""A correct connector; each connector of `bug_list` differs from it in one point.

It has three streams of records. Each is a source partition, and its offset is the number of the last record.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from fencepost import ConfigDef, ExactlyOnceSupport, SourceConnector, SourceRecord, SourceTask

STREAMS: Final = ("a", "b", "c")
LENGTH: Final = 12
BATCH: Final = 5

CONFIG: Final = {"topic": "streams", "streams": ",".join(STREAMS)}


class StreamsTask(SourceTask):
    """Reads its streams, one after the other, up to BATCH records a poll."""

    def __init__(self) -> None:
        self.stopping = threading.Event()

    def start(self, config: Mapping[str, str]) -> None:
        self.topic = config["topic"]
        self.streams = config["streams"].split(",")
        self.position = {stream: self.committed(stream) for stream in self.streams}

    def committed(self, stream: str) -> int:
        offset = self.context.offset_reader.offset(self.partition(stream))
        return 0 if offset is None else offset["number"]

    def partition(self, stream: str) -> dict[str, Any]:
        return {"stream": stream}

    def offset(self, number: int) -> dict[str, Any]:
        return {"number": number}

    def numbers(self, stream: str) -> list[int]:
        """The numbers of the next records."""
        first = self.position[stream] + 1
        return list(range(first, min(first + BATCH, LENGTH + 1)))

    def poll(self) -> list[SourceRecord] | None:
        for stream in self.streams:
            if numbers := self.numbers(stream):
                self.position[stream] = numbers[-1]
                return [self.record(stream, number) for number in numbers]
        return self.nothing()

    def record(self, stream: str, number: int) -> SourceRecord:
        value = f"{stream}{number}"
        return SourceRecord(self.partition(stream), self.offset(number), self.topic, value=value, key=stream)

    def nothing(self) -> None:
        self.stopping.wait(0.1)

    def at_end(self) -> bool:
        return all(position == LENGTH for position in self.position.values())

    def stop(self) -> None:
        self.stopping.set()


class StreamsConnector(SourceConnector):
    """Distributes the streams among the tasks."""

    task: type[SourceTask] = StreamsTask

    def config(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("topic", ConfigDef.Type.STRING, documentation="The topic of the records.")
            .define("streams", ConfigDef.Type.LIST, documentation="The streams to read.")
        )

    def task_class(self) -> type[SourceTask]:
        return self.task

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        streams = self.streams()
        return [self.task_config(streams[number::max_tasks], number) for number in range(min(max_tasks, len(streams)))]

    def streams(self) -> list[str]:
        return self.context.configs()["streams"].split(",")

    def task_config(self, streams: list[str], number: int) -> dict[str, str]:
        del number
        return {"topic": self.context.configs()["topic"], "streams": ",".join(streams)}

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        del config
        return ExactlyOnceSupport.SUPPORTED
