"""Pipelines, producers and readers for tests of the engine."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from fencepost.api.errors import DataError
from fencepost.api.plugin import Converter, HeaderConverter
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.converters.byte_array_converter import ByteArrayConverter
from fencepost.converters.json_converter import JsonConverter
from fencepost.converters.simple_header_converter import SimpleHeaderConverter
from fencepost.converters.string_converter import StringConverter
from fencepost.engine.engine import SparkEngine, WriteResult
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.topic_gate import TopicGate
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.producer.record_producer import RecordProducer
from fencepost.kafka.producer.transactional import TransactionalProducer
from tests.support.topics import unique


def json_converter(*, is_key: bool = False, schemas: bool = False) -> JsonConverter:
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()}, is_key=is_key)
    return converter


def bytes_converter() -> ByteArrayConverter:
    converter = ByteArrayConverter()
    converter.configure({}, is_key=False)
    return converter


SKIP = ErrorHandling(Tolerance.ALL)


def pipeline(
    topic: str | None = None,
    *,
    value: Converter | None = None,
    header: HeaderConverter | None = None,
    transforms: Sequence[Any] = (),
    errors: ErrorHandling | None = None,
) -> Pipeline:
    """A pipeline, by default with string keys and values and without tolerance."""
    key, text, headers = StringConverter(), StringConverter(), SimpleHeaderConverter()
    key.configure({}, is_key=True)
    text.configure({}, is_key=False)
    headers.configure({})
    return Pipeline(transforms, key, value or text, header or headers, topic, errors or ErrorHandling())


@contextmanager
def producer(bootstrap_servers: str, transactional_id: str | None = None) -> Iterator[TransactionalProducer]:
    config = ProducerConfig(ClientConfig(tuple(bootstrap_servers.split(","))))
    with closing(TransactionalProducer(config, transactional_id or unique("task"))) as owner:
        owner.init_transactions()
        yield owner


def write_into(
    engine: SparkEngine,
    owner: RecordProducer,
    batch: Sequence[SourceRecord] | SourceBatch,
    steps: Pipeline,
    *,
    task: str = "connector-0",
    cancelled: threading.Event | None = None,
) -> WriteResult:
    """Write a batch into the open transaction; brokers create its topics."""
    return engine.write(
        batch, steps, owner, task=task, cancelled=cancelled or threading.Event(), topic_gate=TopicGate(None)
    )


def write(
    engine: SparkEngine,
    owner: TransactionalProducer,
    batch: Sequence[SourceRecord] | SourceBatch,
    steps: Pipeline,
    *,
    task: str = "connector-0",
) -> WriteResult:
    """Write one batch in one transaction, which is aborted if the engine raises."""
    owner.begin_transaction()
    try:
        result = write_into(engine, owner, batch, steps, task=task)
    except BaseException:
        owner.abort_transaction()
        raise
    owner.commit_transaction()
    return result


@dataclass(frozen=True)
class NumberReader:
    """Reads numbers as text: the split `(first, last)` has those from `first` up to `last`.

    `columns` adds the columns of the same name: keys `k<number % 7>`, partitions `number % 3`, or the topic given.
    """

    columns: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    rows: int = 1_000

    @property
    def schema(self) -> str:
        kinds = {"key": "key STRING", "partition": "partition INT", "topic": "topic STRING"}
        return ", ".join(["value STRING", *(kinds[name] for name in self.columns)])

    def read(self, split: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        if self.rows == 0:
            raise DataError("NumberReader cannot read with rows=0")
        for first in range(split[0], split[1], self.rows):
            yield self.batch(range(first, min(first + self.rows, split[1])))

    def batch(self, numbers: Sequence[int]) -> pa.RecordBatch:
        made: dict[str, Any] = {
            "key": lambda: [f"k{number % 7}" for number in numbers],
            "partition": lambda: pa.array([number % 3 for number in numbers], pa.int32()),
            "topic": lambda: [self.topics[number % len(self.topics)] for number in numbers],
        }
        values = [str(number) for number in numbers]
        return pa.RecordBatch.from_pydict({"value": values} | {name: made[name]() for name in self.columns})


@dataclass(frozen=True)
class WhereReader:
    """Returns, for each split, the id of the process that reads it."""

    schema: str = "value STRING"

    def read(self, split: object) -> Iterator[pa.RecordBatch]:
        del split
        yield pa.RecordBatch.from_pydict({"value": [str(os.getpid())]})


@dataclass(frozen=True)
class TrickyReader:
    """Does one `deed` in the middle of the split `(first, last)` that has the number `at`; `once` is a marker file.

    `deed`: "kill" the process that reads, "hang" until it is killed, "freeze" it until it gets SIGCONT, "fail" with a
    DataError, or "break" with an unexpected error.
    """

    deed: str
    at: int
    once: str
    schema: str = "value STRING"

    def read(self, split: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        for batch in NumberReader().read(split):
            yield batch
            if str(self.at).encode() in batch["value"].cast(pa.binary()).to_pylist() and not Path(self.once).exists():
                Path(self.once).write_text(str(os.getpid()))
                self._act()

    def _act(self) -> None:
        if self.deed == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.deed == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        while self.deed == "hang":
            time.sleep(0.1)
        if self.deed == "fail":
            raise DataError(f"line {self.at} of numbers.txt does not fit")
        raise RuntimeError("a bug in a reader")


def splits(count: int, parts: int) -> list[tuple[int, int]]:
    """Split the numbers 0 to `count` into `parts` ranges."""
    return [(count * part // parts, count * (part + 1) // parts) for part in range(parts)]
