"""A source of numbered records, shared out among tasks by its partitions, and the engine that writes them.

A connector's property `partitions` says how many source partitions there are, `records` how many records each has.
Task t of n takes the partitions whose number leaves the remainder t, so a change of `tasks.max` moves most of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.api.config_def import ConfigDef
from fencepost.api.record import SourceRecord
from fencepost.api.source import SourceConnector, SourceTask
from fencepost.kafka.producer import TransactionalProducer
from fencepost.spark.engine import WriteResult
from fencepost.spark.error_counts import ErrorCounts
from tests.sim.kernel import Kernel
from tests.sim.threads import SimEvent

DATA = "data"


@dataclass(frozen=True)
class Origin:
    """Who wrote a record."""

    connector: str
    task: int
    generation: int | None


@dataclass(frozen=True)
class SimPipeline:
    """Where the engine would have transforms and converters."""

    origin: Origin
    default_topic: str | None = None


class NumbersConnector(SourceConnector):
    """Makes as many tasks as it may."""

    def __init__(self) -> None:
        self._config: Mapping[str, str] = {}

    def version(self) -> str:
        return "1"

    def config(self) -> ConfigDef:
        return ConfigDef()

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config

    def task_class(self) -> type[SourceTask]:
        return NumbersTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        partitions = int(self._config["partitions"])
        tasks = min(max_tasks, partitions)
        shares = [[number for number in range(partitions) if number % tasks == task] for task in range(tasks)]
        return [{"partitions": json.dumps(share), "records": self._config["records"]} for share in shares]

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[Any, Any]) -> bool:
        del config, offsets
        return True


class NumbersTask(SourceTask):
    """Gives the next records of one of its partitions with each poll."""

    kernel: Kernel

    def start(self, config: Mapping[str, str]) -> None:
        self._stopping = SimEvent(self.kernel)
        self._records = int(config["records"])
        partitions = json.loads(config["partitions"])
        stored = self.context.offset_reader.offsets([{"partition": number} for number in partitions])
        self._next = {
            number: 0 if offset is None else int(offset["next"])
            for number, offset in zip(partitions, stored, strict=True)
        }
        self.kernel.note(f"a task starts to read at {self._next}")

    def poll(self) -> list[SourceRecord] | None:
        draw = self.kernel.random
        left = [number for number, position in self._next.items() if position < self._records]
        if not left:
            self._stopping.wait(draw.uniform(0.2, 8.0))
            return None
        self.kernel.sleep(draw.uniform(0.2, 1.5))
        if self._stopping.is_set():
            return None
        number = draw.choice(left)
        first = self._next[number]
        after = self._next[number] = min(self._records, first + draw.randint(1, 3))
        return [
            SourceRecord({"partition": number}, {"next": position + 1}, DATA, position)
            for position in range(first, after)
        ]

    def stop(self) -> None:
        self._stopping.set()


class SimEngine:
    """As spark.engine.SparkEngine, for polled records."""

    def warm_up(self) -> None:
        """There is nothing to start."""

    def stop(self) -> None:
        """There is nothing to stop."""

    def cancel(self, task: str) -> None:
        """A write ends by itself, when its producer is abandoned."""

    def session(self) -> Any:
        raise AssertionError("no task of the simulation asks for a Spark session")

    def write(
        self,
        batch: Sequence[SourceRecord],
        pipeline: SimPipeline,
        producer: TransactionalProducer,
        *,
        before_write: Any = lambda _: None,
        **_: Any,
    ) -> WriteResult:
        before_write({DATA})
        rows = [((pipeline.origin, record.source_partition["partition"]), record.value) for record in batch]
        writer = producer.writer()
        writer.write(DATA, 0, rows)  # type: ignore[arg-type]
        acks = writer.flush()
        producer.acknowledge(acks)
        return WriteResult(
            written=len(rows), bytes=0, metadata=[None] * len(rows), topics=frozenset({DATA}), errors=ErrorCounts()
        )
