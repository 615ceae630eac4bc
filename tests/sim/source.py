"""A source of numbered records, shared out among tasks by its partitions, and the engine that writes them.

A connector's property `partitions` says how many source partitions there are, `records` how many records each has,
`keyed` whether their records have a key.
Task t of n takes the partitions whose number leaves the remainder t, so a change of `tasks.max` moves most of them; a
steady connector leaves the first ones where they are, and promises that partitions follow task configurations.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Any

from fencepost.api.config_def import ConfigDef
from fencepost.api.record import SourceRecord
from fencepost.api.source import SourceConnector, SourceTask
from fencepost.engine.attempts import check_stage_attempt
from fencepost.engine.engine import WriteResult
from fencepost.engine.error_counts import ErrorCounts
from fencepost.engine.routing import PartitionCounts, agreed
from fencepost.engine.topic_gate import TopicGate
from fencepost.kafka.producer.partitioner import partition_for_keys
from fencepost.kafka.producer.sender import Ack
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.kafka.records.columns import Records
from tests.sim.kernel import Kernel
from tests.sim.threads import SimEvent

DATA = "data"


@dataclass(frozen=True)
class Origin:
    """The writer of a record: a task that was planned when its worker had read the config topic up to an offset."""

    connector: str
    task: int
    planned_at: int
    batch: int = 0
    """The number of its worker's batch."""


@dataclass(frozen=True)
class SimPipeline:
    """Replaces the pipeline of transforms and converters."""

    origin: Origin
    default_topic: str | None = None
    keyed: bool = False
    """Whether the source partition is the record's key; otherwise there is no key."""


class NumbersConnector(SourceConnector):
    """Makes tasks.max tasks."""

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
        shares = self._shares(max_tasks)
        return [{"partitions": json.dumps(share), "records": self._config["records"]} for share in shares]

    def _shares(self, max_tasks: int) -> list[list[int]]:
        partitions = int(self._config["partitions"])
        tasks = min(max_tasks, partitions)
        return [
            [number for number in range(partitions) if self._task_of(number, tasks) == task] for task in range(tasks)
        ]

    def _task_of(self, partition: int, tasks: int) -> int:
        return partition % tasks

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[Any, Any]) -> bool:
        del config, offsets
        return True


class SteadyConnector(NumbersConnector):
    """Moves only as many partitions as necessary, most of the time."""

    def partitions_follow_task_configs(self, config: Mapping[str, str]) -> bool:
        del config
        return True

    def _task_of(self, partition: int, tasks: int) -> int:
        task = min(partition, tasks - 1)
        # With four tasks, the last two swap partitions.
        return {2: 3, 3: 2}.get(task, task) if tasks == 4 else task


class NumbersTask(SourceTask):
    """Each poll returns the next records of one of its partitions."""

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
    """Replaces engine.engine.SparkEngine for a SourceBatch: two executors convert it, and one writes it.

    Sometimes it loses its shuffle files half-way through a write by executors.
    """

    plugin_counts = None

    def __init__(self) -> None:
        self._batches = count(1)

    def expect(self, pipeline: Any) -> None:
        """There is nothing to start."""

    def stop(self) -> None:
        """There is nothing to stop."""

    def cancel(self, task: str) -> None:
        """A write ends by itself when its producer is abandoned."""

    def session(self) -> Any:
        raise AssertionError("no task of the simulation asks for a Spark session")

    def write(
        self,
        batch: Sequence[SourceRecord],
        pipeline: SimPipeline,
        producer: TransactionalProducer,
        *,
        topic_gate: TopicGate,
        begin: Callable[[], None],
        **_: Any,
    ) -> WriteResult:
        begin()
        topic_gate.admit({DATA})
        kernel = NumbersTask.kernel
        origin = replace(pipeline.origin, batch=next(self._batches))
        rows = [((origin, record.source_partition["partition"]), record.value) for record in batch]
        reruns = kernel.reruns > 0 and len(rows) > 1 and kernel.random.random() < kernel.reruns
        if reruns:
            kernel.trouble("stages run again", "Spark loses what it shuffled, and runs the stage of a writer again")
            self._attempt(0, rows[: len(rows) // 2], producer, keyed=pipeline.keyed)
        producer.acknowledge(self._attempt(int(reruns), rows, producer, keyed=pipeline.keyed))
        return WriteResult(
            written=len(rows), bytes=0, metadata=[None] * len(rows), topics=frozenset({DATA}), errors=ErrorCounts()
        )

    def _attempt(self, number: int, rows: Sequence[Any], producer: TransactionalProducer, *, keyed: bool) -> list[Ack]:
        thread = f"Executor task launch worker for task 0.0 in stage 1.{number} (TID {number})"
        check_stage_attempt(thread, stage=1, task=number)
        with closing(producer.writer()) as writer:
            targeted: dict[int, list[Any]] = defaultdict(list)
            told, asked = writer.known_partitions(), list[dict[str, int]]()
            middle = (len(rows) + 1) // 2
            for executor, part in enumerate((rows[:middle], rows[middle:])):
                counts = PartitionCounts(told, writer.partitions, lambda topic, _: writer.partitions(topic))
                for row in part:
                    targeted[_target(row, counts(DATA), executor, keyed=keyed)].append(row)
                asked.append(counts.requested_counts)
            for partition, owned in targeted.items():
                writer.write(DATA, partition, owned)  # type: ignore[arg-type]
            acks = writer.flush()
            found = agreed(asked)
            agreed([found, {topic: writer.partitions(topic) for topic in found}])
            return acks


def _target(row: Any, partitions: int, executor: int, *, keyed: bool) -> int:
    """The partition of a record, chosen as by engine.routing.Router."""
    (origin, key), _ = row
    return _partition_of(key, partitions) if keyed else (origin.batch + executor) % partitions


@lru_cache
def _partition_of(key: int, partitions: int) -> int:
    return int(partition_for_keys(Records.of_rows([(str(key).encode(), None)]).key, partitions)[0])
