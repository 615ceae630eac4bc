"""Replacements of the worker's topic readers, see `clients`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from fencepost.api.errors import IllegalStateError
from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
from fencepost.kafka.consumer.read_to_end import TopicReadTimeoutError
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import BrokerUnavailableError
from tests.sim.broker import Code, Row, log_of
from tests.sim.clients import Site


class SimTopicReader:
    """Replaces kafka.topic_reader.TopicReader: lists the end offsets, with open transactions, then reads up to them."""

    def __init__(self, site: Site, topic: str) -> None:
        self._site = site
        self._topic = topic
        self._positions: dict[int, int] = {}
        self.topic_id = None

    @property
    def positions(self) -> Mapping[int, int]:
        return dict(self._positions)

    def end_offsets(self, timeout_ms: float) -> Mapping[int, int]:
        return self._ends(Deadline.after(timeout_ms))

    def late(self, partition: int, position: int, end: int, timeout_ms: float) -> TopicReadTimeoutError:
        said = f"{self._topic}-{partition} stands at {position} of {end} after {timeout_ms} ms"
        return TopicReadTimeoutError(self._topic, partition, said)

    def read_to_end(self, timeout_ms: float, *, deadline: Deadline) -> list[ConsumedRecord]:
        return [
            record
            for partition, end in self._ends(deadline).items()
            for record in self._read_partition(partition, end, timeout_ms, deadline)
        ]

    def _read_partition(
        self, partition: int, end: int, timeout_ms: float, deadline: Deadline
    ) -> Iterator[ConsumedRecord]:
        broker, log = self._site.broker, log_of(self._topic, partition)
        while (position := self._positions.get(partition, 0)) < end:
            _, (rows, self._positions[partition]) = self._site.asked(
                "Fetch", lambda position=position: (Code.NONE, broker.fetch(log, position)), deadline
            )
            yield from consumed(self._topic, rows, partition)
            if self._positions[partition] < end:
                if deadline.passed:
                    raise self.late(partition, self._positions[partition], end, timeout_ms)
                self._site.kernel.sleep(0.05)

    def _ends(self, deadline: Deadline) -> dict[int, int]:
        broker = self._site.broker

        def ends() -> dict[int, int]:
            return {partition: broker.end(log) for partition, log in enumerate(broker.logs(self._topic))}

        _, found = self._site.asked("ListOffsets", lambda: (Code.NONE, ends()), deadline)
        return dict(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def close(self) -> None:
        """There is nothing to release."""


class SimTopicLog:
    """Replaces kafka.topic_log.TopicLog: follows a topic, and returns committed records."""

    def __init__(self, site: Site, topic: str, on_record: Callable[[ConsumedRecord], None]) -> None:
        self.topic = topic
        self._site = site
        self._on_record = on_record
        self._position = 0
        self._fetching = False
        self._more = False
        self._changed: list[tuple[Any, int]] = []
        self._closed = False
        self.fatal_failure = None

    def start(self, timeout_ms: float) -> None:
        self._site.broker.follow(self.topic, self._fetch)
        self._fetch()
        self.read_to_end(timeout_ms)

    def partitions(self) -> int:
        return 1

    def read_to_end(self, timeout_ms: float = 90_000.0) -> None:
        broker = self._site.broker
        deadline = Deadline.after(timeout_ms)
        _, end = self._site.asked("ListOffsets", lambda: (Code.NONE, broker.end(self.topic)), deadline)
        self.wait_for({0: end}, deadline.remaining_s * 1000)

    def wait_for(self, ends: Mapping[int, int], timeout_ms: float = 90_000.0) -> None:
        deadline = Deadline.after(timeout_ms)
        while self._position < ends[0]:
            if self._closed:
                raise IllegalStateError(f"The log of topic {self.topic} was closed while it was read")
            if deadline.passed:
                raise BrokerUnavailableError(f"{self.topic} was not read to {ends[0]} in time")
            fiber = self._site.kernel.fiber
            self._changed.append((fiber, fiber.ticket()))
            fiber.park(deadline.remaining_s)

    def close(self) -> None:
        self._closed = True

    def _fetch(self) -> None:
        """A long poll, which is answered when there is a record."""
        if self._fetching:
            self._more = True
            return
        process, kernel = self._site.process, self._site.kernel
        if not process.alive or self._closed:
            return
        self._fetching, self._more = True, False
        cut_off = max(process.cut_off_until, process.deaf_until) - kernel.now
        kernel.later(max(cut_off, 0.0) + self._site.network.delay(), self._answer)

    def _answer(self) -> None:
        process, kernel = self._site.process, self._site.kernel
        if max(process.cut_off_until, process.deaf_until) > kernel.now:
            self._fetching = False
            self._fetch()
            return
        rows, position = self._site.broker.fetch(self.topic, self._position)
        if self._position == 0 and self._site.broker.compacts:
            rows = self._compacted(rows)
        kernel.later(self._site.network.delay(), lambda: self._take(rows, position), process)

    def _compacted(self, rows: list[tuple[int, Row, float]]) -> list[tuple[int, Row, float]]:
        """The rows that are left after a compaction up to some commit of task configurations, or during it."""
        commits = [number for number, (_, (key, _), _) in enumerate(rows) if key.startswith(b"commit-")]
        if not commits:
            return rows
        draw = self._site.kernel.random
        end, share = draw.choice(commits) + 1, draw.choice((0.5, 1.0))
        latest = {key: number for number, (_, (key, _), _) in enumerate(rows[:end])}
        left = [row for number, row in enumerate(rows[:end]) if latest[row[1][0]] == number or draw.random() >= share]
        self._site.kernel.note(
            f"{self.topic} is compacted up to {rows[end - 1][0]}: {end - len(left)} records are gone"
        )
        return left + rows[end:]

    def _take(self, rows: list[tuple[int, Row, float]], position: int) -> None:
        for record in consumed(self.topic, rows):
            self._on_record(record)
        self._position, self._fetching = position, False
        changed, self._changed = self._changed, []
        for fiber, ticket in changed:
            self._site.kernel.later(0.0, lambda f=fiber, t=ticket: f.wake(t, None), self._site.process)
        if self._more:
            self._fetch()


def consumed(topic: str, rows: list[tuple[int, Row, float]], partition: int = 0) -> list[ConsumedRecord]:
    """Rows in the form in which a reader returns them."""
    return [
        ConsumedRecord(topic, partition, offset, int(time * 1000), row[0], row[1], getattr(row, "headers", ()))
        for offset, row, time in rows
    ]
