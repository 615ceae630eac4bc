"""Tasks with one bug each: offsets, state, order, time and waiting."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from fencepost import SourceRecord
from tests.conformance.bug_list import RELEASED, found_by
from tests.conformance.streams import LENGTH, StreamsTask

# Offsets.


@found_by("resumes_from_every_offset")
class OffsetTooFar(StreamsTask):
    """The offset is the next record's, and the task starts after it."""

    def offset(self, number: int) -> dict[str, Any]:
        return {"number": number + 1}


@found_by("resumes_from_every_offset")
class OffsetTooNear(StreamsTask):
    """The offset is the previous record's."""

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
    """The offset is a string, and strings are compared: "10" comes before "9"."""

    def offset(self, number: int) -> dict[str, Any]:
        return {"number": str(number)}

    def committed(self, stream: str) -> int:
        offset = self.context.offset_reader.offset(self.partition(stream))
        last = "" if offset is None else offset["number"]
        return next((number - 1 for number in range(1, LENGTH + 1) if str(number) > last), LENGTH)


@found_by("resumes_from_every_offset")
class OffsetPerPage(StreamsTask):
    """A restart begins at the next page, so the remaining records of the current page are lost."""

    def committed(self, stream: str) -> int:
        return -(-super().committed(stream) // 4) * 4


@found_by("resumes_from_every_offset")
class OffsetSinceTheStart(StreamsTask):
    """A resumed task counts from its own start, so a second restart goes back."""

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self.began = dict(self.position)

    def numbers(self, stream: str) -> list[int]:
        return list(range(self.position[stream] + 1, LENGTH + 1))

    def record(self, stream: str, number: int) -> SourceRecord:
        offset = self.offset(number - self.began[stream])
        return SourceRecord(self.partition(stream), offset, self.topic, value=f"{stream}{number}")


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
    """All records share one dict as their offset, which is changed with each record."""

    def start(self, config: Mapping[str, str]) -> None:
        self.shared: dict[str, Any] = {}
        super().start(config)

    def offset(self, number: int) -> dict[str, Any]:
        self.shared["number"] = number
        return self.shared


# State outside of the offsets.


@found_by("gives_the_same_again")
class StateInTheModule(StreamsTask):
    """The position is a class attribute, so a task that restarts in the same worker goes on where the old one was."""

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
    """poll() deletes its records from the source, although they may never be committed."""

    deleted: ClassVar[set[tuple[str, int]]] = set()

    def numbers(self, stream: str) -> list[int]:
        numbers = [number for number in super().numbers(stream) if (stream, number) not in self.deleted]
        self.deleted.update((stream, number) for number in numbers)
        return numbers


@found_by("survives_kills_before_a_commit")
class DeletedByTheWrongCommit(StreamsTask):
    """commit() also deletes records that were read ahead for the next poll."""

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
    """stop() advances the position past records that were read ahead."""

    skipped: ClassVar[dict[str, int]] = {}

    def committed(self, stream: str) -> int:
        return super().committed(stream) + self.skipped.pop(stream, 0)

    def commit(self) -> None:
        self.skipped.update(dict.fromkeys(self.streams[:1], 1))


# Order and time.


@found_by("gives_the_same_again")
class OrderOfTheClock(StreamsTask):
    """The order of records depends on the time at which they are read."""

    calls: ClassVar[Iterator[int]] = itertools.count()

    def numbers(self, stream: str) -> list[int]:
        numbers = super().numbers(stream)
        return [numbers[-1], *numbers[:-1]] if numbers and next(self.calls) % 7 == 0 else numbers


@found_by("gives_the_same_again")
class ValueOfTheClock(StreamsTask):
    """A record contains the time at which it was read."""

    def record(self, stream: str, number: int) -> SourceRecord:
        record = super().record(stream, number)
        return SourceRecord(record.source_partition, record.source_offset, self.topic, value=time.monotonic_ns())


# Waiting.


@found_by("reads_the_source")
class PollBlocks(StreamsTask):
    """poll() does not return until there is a record."""

    def nothing(self) -> None:
        RELEASED.wait(60)


@found_by("stops_promptly")
class StopIsIgnored(StreamsTask):
    """stop() does not wake a waiting poll."""

    def nothing(self) -> None:
        RELEASED.wait(30)


@found_by("waits_for_more")
class PollSpins(StreamsTask):
    """poll() returns at once when there are no records, thousands of times a second."""

    def nothing(self) -> None:
        pass


@found_by("waits_for_more")
class EndTooEarly(StreamsTask):
    """at_end() considers the first stream only."""

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
    """start() fails if no offset was committed yet."""

    def committed(self, stream: str) -> int:
        return int(self.context.offset_reader.offset(self.partition(stream))["number"])  # type: ignore[index]


@found_by("stops_promptly")
class StopRaises(StreamsTask):
    """stop() closes an object that was never opened."""

    def stop(self) -> None:
        super().stop()
        raise AttributeError("connection")
