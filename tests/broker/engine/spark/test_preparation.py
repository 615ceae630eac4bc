"""Converters are prepared for each topic of a batch before its transaction begins, however the batch is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.registry.errors import RegistryRefusedError
from fencepost.converters.registry.reading import RegistryReader
from fencepost.engine.engine import SparkEngine
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.source_write import SMALL_BATCH
from fencepost.engine.topic_gate import TopicGate
from fencepost.kafka.producer.transaction import TransactionState
from fencepost.transforms.chain import Step
from fencepost.transforms.records import RegexRouter
from tests.support.checker import read_topic
from tests.support.engine import NumberReader, pipeline, producer, splits
from tests.support.fake_registry import FakeRegistry, send
from tests.support.topics import Topics

COUNT = 3_000


def avro(registry: FakeRegistry, topic: str | None = None, **more: Any) -> Pipeline:
    converter = AvroConverter()
    converter.configure({"schema.registry.url": registry.address}, is_key=False)
    return pipeline(topic, value=converter, **more)


def written(engine: SparkEngine, servers: str, registry: FakeRegistry, batch: Any, steps: Pipeline) -> list[int]:
    """Write a batch in a transaction; return the number of registry requests before the transaction began."""
    begun: list[int] = []
    with producer(servers) as owner:

        def begin() -> None:
            begun.append(len(registry.requests))
            owner.begin_transaction()

        engine.write(
            batch,
            steps,
            owner,
            task="connector-0",
            cancelled=_NEVER,
            topic_gate=TopicGate(None),
            begin=begin,
        )
        owner.commit_transaction()
    assert begun == [len(registry.requests)], "all is asked for before the transaction"
    return begun


class _Never:
    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - as of an Event
        return False


_NEVER: Any = _Never()


def found(servers: str, registry: FakeRegistry, topic: str) -> list[Any]:
    reader = RegistryReader({"schema.registry.url": registry.address})
    values = [reader.read(record.value or b"", is_key=False) for record in read_topic(servers, topic)]
    reader.close()
    return values


@pytest.mark.parametrize("size", [1000, SMALL_BATCH + 1, None])
def test_splits_whose_rows_name_their_topic_are_prepared_for_each_topic(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, registry: FakeRegistry, size: int | None
):
    names = tuple(topics.create(partitions=2) for _ in range(2))
    batch = SourceBatch(reader=NumberReader(("topic",), names), splits=splits(COUNT, 3), bytes=size)
    written(engine, bootstrap_servers, registry, batch, avro(registry))
    assert registry.subjects.keys() == {f"{name}-value" for name in names}
    everything = [int(value) for name in names for value in found(bootstrap_servers, registry, name)]
    assert sorted(everything) == list(range(COUNT))


@dataclass(frozen=True)
class OnceReader(NumberReader):
    """Reads each split only once."""

    seen: str = ""

    def read(self, split: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        Path(self.seen, str(split[0])).touch(exist_ok=False)
        yield from super().read(split)


@pytest.mark.parametrize("size", [1000, None])
def test_a_reader_that_knows_its_topics_reads_once(  # noqa: PLR0917 - fixtures
    engine: SparkEngine,
    bootstrap_servers: str,
    topics: Topics,
    registry: FakeRegistry,
    tmp_path: Path,
    size: int | None,
):
    topic = topics.create(partitions=2)
    reader = OnceReader(("topic",), (topic,), seen=str(tmp_path))
    batch = SourceBatch(reader=reader, splits=splits(COUNT, 3), bytes=size)
    written(engine, bootstrap_servers, registry, batch, avro(registry))
    assert sorted(map(int, found(bootstrap_servers, registry, topic))) == list(range(COUNT))


def test_splits_of_one_topic_are_prepared_for_it(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, registry: FakeRegistry
):
    topic = topics.create(partitions=2)
    batch = SourceBatch(reader=NumberReader(), splits=splits(COUNT, 3))
    written(engine, bootstrap_servers, registry, batch, avro(registry, topic))
    assert sorted(map(int, found(bootstrap_servers, registry, topic))) == list(range(COUNT))


def test_a_dataframe_routed_by_a_transform_is_prepared_for_its_topics(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, registry: FakeRegistry
):
    names = [topics.create() for _ in range(2)]
    router = RegexRouter()
    router.configure({"regex": "x-(.*)", "replacement": "$1"})
    frame = (
        engine.session()
        .range(100)
        .select(
            F.when(F.col("id") % 2 == 0, f"x-{names[0]}").otherwise(f"x-{names[1]}").alias("topic"),
            F.struct("id").alias("value"),
        )
    )
    steps = avro(registry, transforms=(Step(router),))
    written(engine, bootstrap_servers, registry, SourceBatch(dataframe=frame), steps)
    assert registry.subjects.keys() == {f"{name}-value" for name in names}
    assert sorted(row["id"] for row in found(bootstrap_servers, registry, names[1])) == list(range(1, 100, 2))


def test_polled_records_routed_by_a_transform_are_prepared_for_each_topic(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, registry: FakeRegistry
):
    topic = topics.create()
    router = RegexRouter()
    router.configure({"regex": "x-(.*)", "replacement": "$1"})
    records = [
        SourceRecord({}, {}, f"x-{topic}", value={"a": number}, value_schema="a INT NOT NULL") for number in range(5)
    ]
    written(engine, bootstrap_servers, registry, records, avro(registry, transforms=(Step(router),)))
    assert list(registry.subjects) == [f"{topic}-value"]
    assert found(bootstrap_servers, registry, topic) == [{"a": number} for number in range(5)]


@pytest.mark.parametrize("kind", ["records", "splits", "frame"])
def test_no_transaction_begins_if_a_schema_is_refused(
    engine: SparkEngine, bootstrap_servers: str, topics: Topics, registry: FakeRegistry, kind: str
):
    topic = topics.create()
    registry.respond = lambda handler: send(handler, 422, b'{"error_code": 42201, "message": "No"}', "application/json")
    batches: dict[str, Any] = {
        "records": [SourceRecord({}, {}, topic, value={"a": 1}, value_schema="a INT")],
        "splits": SourceBatch(reader=NumberReader(), splits=splits(10, 1)),
        "frame": SourceBatch(dataframe=engine.session().range(3).select(F.struct("id").alias("value"))),
    }
    with producer(bootstrap_servers) as owner:
        with pytest.raises(RegistryRefusedError):
            engine.write(
                batches[kind], avro(registry, topic), owner, task="connector-0", cancelled=_NEVER,
                topic_gate=TopicGate(None), begin=owner.begin_transaction,
            )  # fmt: skip
        assert owner.state is TransactionState.READY
