"""Connectors with one bug each: source partitions, configurations, the number of tasks, and batches."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from fencepost import ConfigDef, ConfigValue, SourceBatch, SourceTask
from tests.conformance.bug_list import found_by
from tests.conformance.streams import LENGTH, StreamsConnector, StreamsTask

# Source partitions.


@found_by("gives_the_same_again")
class PartitionOfARun(StreamsTask):
    """Each run names the partition differently, so it never finds its offset."""

    def start(self, config: Mapping[str, str]) -> None:
        self.run = uuid.uuid4().hex
        super().start(config)

    def partition(self, stream: str) -> dict[str, Any]:
        return {"stream": stream, "run": self.run}


class NumberedTask(StreamsTask):
    """Includes its task number in its partitions' names."""

    def start(self, config: Mapping[str, str]) -> None:
        self.number = config["task.number"]
        super().start(config)

    def partition(self, stream: str) -> dict[str, Any]:
        return {"stream": stream, "task": self.number}


@found_by("survives_more_and_fewer_tasks")
class PartitionOfATask(StreamsConnector):
    """The partition contains the number of the task, which changes with the number of tasks."""

    task = NumberedTask

    def task_config(self, streams: list[str], number: int) -> dict[str, str]:
        return super().task_config(streams, number) | {"task.number": str(number)}


@found_by("tasks_share_no_source_partition")
class PartitionShared(StreamsConnector):
    """Each task reads all streams."""

    def task_config(self, streams: list[str], number: int) -> dict[str, str]:
        del streams
        return super().task_config(self.streams(), number)


@found_by("tasks_share_no_source_partition")
class PartitionAtBothEnds(StreamsConnector):
    """The shares of the tasks overlap by one stream."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        streams = self.streams()
        size = len(streams) // max_tasks
        return [self.task_config(streams[n * size : (n + 1) * size + 1], n) for n in range(max_tasks)]


@found_by("survives_more_and_fewer_tasks")
class PartitionOfNobody(StreamsConnector):
    """The streams that remain after a division by the number of tasks belong to no task."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        streams = self.streams()
        tasks = min(max_tasks, len(streams))
        size = len(streams) // tasks
        return [self.task_config(streams[n * size : (n + 1) * size], n) for n in range(tasks)]


class SharedTask(StreamsTask):
    """Looks its streams up by its task number."""

    shares: ClassVar[list[list[str]]] = []

    def start(self, config: Mapping[str, str]) -> None:
        super().start({"topic": config["topic"], "streams": ",".join(self.shares[int(config["number"])])})


@found_by("partitions_follow_task_configs")
class PromiseBroken(StreamsConnector):
    """The partitions depend on the number of tasks, which is not in the task configurations."""

    task = SharedTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        streams = self.streams()
        SharedTask.shares = [streams[n::max_tasks] for n in range(min(max_tasks, len(streams)))]
        return [{"topic": "t", "number": str(number)} for number in range(len(SharedTask.shares))]

    def partitions_follow_task_configs(self, config: Mapping[str, str]) -> bool:
        del config
        return True


# Configurations and tasks.


@found_by("reads_the_source")
class TooManyTasks(StreamsConnector):
    """There is a task for each stream, whatever tasks.max says."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        del max_tasks
        return [self.task_config([stream], 0) for stream in self.streams()]


@found_by("reads_only_defined_properties")
class PropertyUndefined(StreamsConnector):
    """A property is used but not defined."""

    def start(self, config: Mapping[str, str]) -> None:
        self.region = config.get("region", "eu")


@found_by("defines_its_properties")
class DefaultInvalid(StreamsConnector):
    """A default value is refused by its own validator."""

    def config(self) -> ConfigDef:
        def positive(name: str, value: Any) -> None:
            from fencepost import ConfigError  # noqa: PLC0415 - as authors do

            if value <= 0:
                raise ConfigError(f"{name} must be positive", name=name)

        return super().config().define("rows", ConfigDef.Type.INT, 0, documentation="Rows.", validator=positive)


@found_by("validates_any_configuration")
class ValidateRaises(StreamsConnector):
    """validate() fails without a required property."""

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        values = super().validate(config)
        if not config["streams"].split(","):
            values[0].errors.append("name a stream")
        return values


@found_by("restarts_the_same_tasks")
class TasksOfARun(StreamsConnector):
    """The order of the tasks changes with each start."""

    starts = 0

    def start(self, config: Mapping[str, str]) -> None:
        del config
        self.starts += 1

    def streams(self) -> list[str]:
        return super().streams()[:: 1 if self.starts % 2 else -1]


@found_by("makes_the_same_tasks_in_any_process")
class TasksByHash(StreamsConnector):
    """The task of a stream depends on hash() of its name, which differs between Python processes."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        shares = [[s for s in self.streams() if hash(s) % max_tasks == number] for number in range(max_tasks)]
        return [self.task_config(streams, number) for number, streams in enumerate(filter(None, shares))]


@found_by("makes_the_same_tasks_in_any_process")
class TasksOfASet(StreamsConnector):
    """The streams come in the order of a set."""

    def streams(self) -> list[str]:
        return list(set(super().streams()))


@found_by("reads_the_source")
class TaskClassRaises(StreamsConnector):
    """task_class() looks for a class that does not exist."""

    def task_class(self) -> type[SourceTask]:
        return {"a": StreamsTask}[self.context.configs()["topic"]]


@found_by("accepts_its_own_offsets")
class OwnOffsetRefused(StreamsConnector):
    """alter_offsets() expects a field that the offsets do not have."""

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[Any]) -> bool:
        del config
        return all(offset["position"] >= 0 for _, offset in offsets)


# Batches.


@dataclass(frozen=True)
class Range:
    """A reader of numbers; a split is a range."""

    schema: str = "value STRING"

    def read(self, split: tuple[str, int, int]) -> Iterator[pa.RecordBatch]:
        stream, start, end = split
        yield pa.RecordBatch.from_pylist([{"value": f"{stream}{number}"} for number in range(start, end)])


class BatchTask(StreamsTask):
    """Returns SourceBatches."""

    def poll(self) -> Any:
        for stream in self.streams:
            if numbers := self.numbers(stream):
                self.position[stream] = numbers[-1]
                return self.batch(stream, numbers)
        return self.nothing()

    def batch(self, stream: str, numbers: list[int]) -> SourceBatch:
        split = stream, numbers[0], numbers[-1] + 1
        offset = self.offset(numbers[-1])
        return SourceBatch(reader=Range(), splits=[split], offsets=[(self.partition(stream), offset)], bytes=10)


class BatchConnector(StreamsConnector):
    """A correct connector that returns batches."""

    task = BatchTask


@found_by("resumes_from_every_offset")
class BatchOffsetTooFar(BatchTask):
    """The offset is always a full batch further, even where the source ends earlier."""

    def offset(self, number: int) -> dict[str, Any]:
        return {"number": number + 2}


@found_by("gives_the_same_again")
class BatchReadsLater(BatchTask):
    """The split has only its start: its reader reads up to the source's end at that time."""

    grown: ClassVar[Iterator[int]] = itertools.count(2)

    def batch(self, stream: str, numbers: list[int]) -> SourceBatch:
        split = stream, numbers[0], numbers[0] + min(next(self.grown), LENGTH)
        return SourceBatch(
            reader=Range(), splits=[split], offsets=[(self.partition(stream), self.offset(numbers[-1]))], bytes=10
        )
