"""Connectors with one bug each, as authors make them. `BUGS` says which check finds each."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

import pyarrow as pa

from fencepost import ConfigDef, ConfigValue, SourceBatch, SourceConnector, SourceRecord, SourceTask
from tests.conformance.streams import LENGTH, StreamsConnector, StreamsTask

BUGS: Final[dict[type[SourceConnector], str]] = {}

RELEASED: Final = threading.Event()
"""Ends what blocks, at the end of a test."""


def found_by(check: str) -> Any:
    """Note the check that finds the bug of a task, or of a connector."""

    def note(plugin: type[Any]) -> type[Any]:
        if issubclass(plugin, SourceTask):
            named = {"task": plugin, "__module__": plugin.__module__}
            connector: type[SourceConnector] = type(plugin.__name__, (StreamsConnector,), named)
        else:
            connector = plugin
        BUGS[connector] = check
        return plugin

    return note


# Offsets.


@found_by("resumes_from_every_offset")
class OffsetTooFar(StreamsTask):
    """The offset is that of the next record, and the task starts after it."""

    def offset(self, number: int) -> dict[str, Any]:
        return {"number": number + 1}


@found_by("resumes_from_every_offset")
class OffsetTooNear(StreamsTask):
    """The offset is that of the record before."""

    def offset(self, number: int) -> dict[str, Any]:
        return {"number": number - 1}


@found_by("resumes_from_every_offset")
class OffsetOfThePoll(StreamsTask):
    """All records of a poll share the offset of its last one."""

    def record(self, stream: str, number: int) -> SourceRecord:
        record = super().record(stream, number)
        return SourceRecord(record.source_partition, self.offset(self.position[stream]), record.topic, record.value)


@found_by("resumes_from_every_offset")
class OffsetAsText(StreamsTask):
    """The offset is a text, and texts are compared: "10" comes before "9"."""

    def offset(self, number: int) -> dict[str, Any]:
        return {"number": str(number)}

    def committed(self, stream: str) -> int:
        offset = self.context.offset_reader.offset(self.partition(stream))
        last = "" if offset is None else offset["number"]
        return next((number - 1 for number in range(1, LENGTH + 1) if str(number) > last), LENGTH)


@found_by("resumes_from_every_offset")
class OffsetPerPage(StreamsTask):
    """A restart begins at the next page, so what was left of the former one is lost."""

    def committed(self, stream: str) -> int:
        return -(-super().committed(stream) // 4) * 4


@found_by("reads_the_source")
class OffsetIsDatetime(StreamsTask):
    """The offset is a datetime, which JSON does not have."""

    def offset(self, number: int) -> dict[str, Any]:
        return {"number": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(number)}


@found_by("reads_the_source")
class OffsetIsNested(StreamsTask):
    """The offset is a list in a dict."""

    def offset(self, number: int) -> dict[str, Any]:
        return {"number": [number]}


@found_by("reads_the_source")
class OffsetChangedLater(StreamsTask):
    """One dict is every record's offset, and changes with each."""

    def start(self, config: Mapping[str, str]) -> None:
        self.shared: dict[str, Any] = {}
        super().start(config)

    def offset(self, number: int) -> dict[str, Any]:
        self.shared["number"] = number
        return self.shared


# Source partitions.


@found_by("gives_the_same_again")
class PartitionOfARun(StreamsTask):
    """Each run has a name of its own for the partition, so it never finds its offset."""

    def start(self, config: Mapping[str, str]) -> None:
        self.run = uuid.uuid4().hex
        super().start(config)

    def partition(self, stream: str) -> dict[str, Any]:
        return {"stream": stream, "run": self.run}


class NumberedTask(StreamsTask):
    """Names its partitions after itself."""

    def start(self, config: Mapping[str, str]) -> None:
        self.number = config["task.number"]
        super().start(config)

    def partition(self, stream: str) -> dict[str, Any]:
        return {"stream": stream, "task": self.number}


@found_by("survives_more_and_fewer_tasks")
class PartitionOfATask(StreamsConnector):
    """The partition has the number of the task, which changes with the number of tasks."""

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
    """What is left when the streams are divided by the tasks belongs to no task."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        streams = self.streams()
        tasks = min(max_tasks, len(streams))
        size = len(streams) // tasks
        return [self.task_config(streams[n * size : (n + 1) * size], n) for n in range(tasks)]


class SharedTask(StreamsTask):
    """Looks its streams up under its number."""

    shares: ClassVar[list[list[str]]] = []

    def start(self, config: Mapping[str, str]) -> None:
        super().start({"topic": config["topic"], "streams": ",".join(self.shares[int(config["number"])])})


@found_by("partitions_follow_task_configs")
class PromiseBroken(StreamsConnector):
    """The promise holds only if the number of tasks is part of the configuration, and it is not."""

    task = SharedTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        streams = self.streams()
        SharedTask.shares = [streams[n::max_tasks] for n in range(min(max_tasks, len(streams)))]
        return [{"topic": "t", "number": str(number)} for number in range(len(SharedTask.shares))]

    def partitions_follow_task_configs(self, config: Mapping[str, str]) -> bool:
        del config
        return True


# State outside of the offsets.


@found_by("gives_the_same_again")
class StateInTheModule(StreamsTask):
    """The position is the class's, so a task that is started again in the same worker goes on where the old one was."""

    shared: ClassVar[dict[str, int]] = {}

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self.position = {stream: max(self.shared.get(stream, 0), at) for stream, at in self.position.items()}

    def numbers(self, stream: str) -> list[int]:
        numbers = super().numbers(stream)
        self.shared[stream] = max(numbers, default=LENGTH)
        return numbers


@found_by("gives_the_same_again")
class DeletedByPoll(StreamsTask):
    """The source forgets what poll returned, though it may never be committed."""

    deleted: ClassVar[set[tuple[str, int]]] = set()

    def numbers(self, stream: str) -> list[int]:
        numbers = [number for number in super().numbers(stream) if (stream, number) not in self.deleted]
        self.deleted.update((stream, number) for number in numbers)
        return numbers


@found_by("survives_kills_before_a_commit")
class DeletedByTheWrongCommit(StreamsTask):
    """commit() deletes what was read ahead for the next poll, too."""

    deleted: ClassVar[set[tuple[str, int]]] = set()

    def numbers(self, stream: str) -> list[int]:
        numbers = super().numbers(stream)
        self.read = stream, [*numbers, numbers[-1] + 1] if numbers else []
        return [number for number in numbers if (stream, number) not in self.deleted]

    def commit(self) -> None:
        stream, numbers = self.read
        self.deleted.update((stream, number) for number in numbers)


@found_by("survives_kills_after_a_commit")
class PositionSavedByCommit(StreamsTask):
    """commit() saves the position, and a start prefers it to the offset; a worker may be killed before commit()."""

    saved: ClassVar[dict[str, int]] = {}

    def committed(self, stream: str) -> int:
        return self.saved.setdefault(stream, 0)

    def commit(self) -> None:
        self.saved.update(self.position)


@found_by("survives_restarts")
class LostByStop(StreamsTask):
    """stop() moves on past records that were read ahead."""

    skipped: ClassVar[dict[str, int]] = {}

    def committed(self, stream: str) -> int:
        return super().committed(stream) + self.skipped.pop(stream, 0)

    def commit(self) -> None:
        self.skipped.update(dict.fromkeys(self.streams[:1], 1))


# Order and time.


@found_by("gives_the_same_again")
class OrderOfTheClock(StreamsTask):
    """Records come in an order that depends on when they are read."""

    calls: ClassVar[Iterator[int]] = itertools.count()

    def numbers(self, stream: str) -> list[int]:
        numbers = super().numbers(stream)
        return [numbers[-1], *numbers[:-1]] if numbers and next(self.calls) % 7 == 0 else numbers


@found_by("gives_the_same_again")
class ValueOfTheClock(StreamsTask):
    """A record says when it was read."""

    def record(self, stream: str, number: int) -> SourceRecord:
        record = super().record(stream, number)
        return SourceRecord(record.source_partition, record.source_offset, self.topic, value=time.monotonic_ns())


# Waiting.


@found_by("reads_the_source")
class PollBlocks(StreamsTask):
    """poll() does not return before there is something."""

    def nothing(self) -> None:
        RELEASED.wait(60)


@found_by("stops_promptly")
class StopIsIgnored(StreamsTask):
    """stop() does not wake a poll that waits."""

    def nothing(self) -> None:
        RELEASED.wait(30)


@found_by("waits_for_more")
class PollSpins(StreamsTask):
    """poll() returns at once when there is nothing, thousands of times a second."""

    def nothing(self) -> None:
        pass


@found_by("waits_for_more")
class EndTooEarly(StreamsTask):
    """at_end() answers for the first stream only."""

    paused = False

    def at_end(self) -> bool:
        return self.position[self.streams[0]] == LENGTH

    def poll(self) -> list[SourceRecord] | None:
        if self.at_end() and not self.paused:
            self.paused = True
            return None
        return super().poll()


@found_by("reads_the_source")
class StartNeedsAnOffset(StreamsTask):
    """start() fails where nothing was committed yet."""

    def committed(self, stream: str) -> int:
        return int(self.context.offset_reader.offset(self.partition(stream))["number"])  # type: ignore[index]


# Configurations and tasks.


@found_by("reads_the_source")
class TooManyTasks(StreamsConnector):
    """There is a task for each stream, whatever tasks.max says."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        del max_tasks
        return [self.task_config([stream], 0) for stream in self.streams()]


@found_by("reads_only_defined_properties")
class PropertyUndefined(StreamsConnector):
    """A property that is read is not defined."""

    def start(self, config: Mapping[str, str]) -> None:
        self.region = config.get("region", "eu")


@found_by("defines_its_properties")
class DefaultInvalid(StreamsConnector):
    """A default is refused by its own validator."""

    def config(self) -> ConfigDef:
        def positive(name: str, value: Any) -> None:
            from fencepost import ConfigError  # noqa: PLC0415 - as authors do

            if value <= 0:
                raise ConfigError(f"{name} must be positive", name=name)

        return super().config().define("rows", ConfigDef.Type.INT, 0, documentation="Rows.", validator=positive)


@found_by("validates_any_configuration")
class ValidateRaises(StreamsConnector):
    """validate() takes it for granted that a required property is there."""

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


@found_by("accepts_its_own_offsets")
class OwnOffsetRefused(StreamsConnector):
    """alter_offsets() looks for a name that the offsets do not have."""

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
    """Correct, with batches."""

    task = BatchTask


@found_by("resumes_from_every_offset")
class BatchOffsetTooFar(BatchTask):
    """The offset is that of a whole batch, even where the source ends before."""

    def offset(self, number: int) -> dict[str, Any]:
        return {"number": number + 2}


@found_by("gives_the_same_again")
class BatchReadsLater(BatchTask):
    """The split says only where the batch begins: its reader reads up to where the source ends by then."""

    grown: ClassVar[Iterator[int]] = itertools.count(2)

    def batch(self, stream: str, numbers: list[int]) -> SourceBatch:
        split = stream, numbers[0], numbers[0] + min(next(self.grown), LENGTH)
        return SourceBatch(
            reader=Range(), splits=[split], offsets=[(self.partition(stream), self.offset(numbers[-1]))], bytes=10
        )
