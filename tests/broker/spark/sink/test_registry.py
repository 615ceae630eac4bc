"""Avro with a schema registry from Spark: the driver gets the schema ids, so executors do not ask the registry."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.converters.registry.errors import RegistryRefusedError
from fencepost.converters.registry.reading import RegistryReader
from fencepost.spark import exactly_once, write_kafka
from fencepost.spark.format.data_source import FencepostDataSource
from tests.support.checker import read_topic
from tests.support.fake_registry import FakeRegistry, send
from tests.support.spark_queries import users_thread
from tests.support.topics import Topics


def options(bootstrap_servers: str, registry: FakeRegistry, *roles: str) -> dict[str, Any]:
    found: dict[str, Any] = {"bootstrap.servers": bootstrap_servers}
    for role in roles or ("value",):
        found |= {
            f"{role}.converter": "AvroConverter",
            f"{role}.converter.schema.registry.url": registry.address,
            f"{role}.converter.retries.max.wait.ms": 1,
        }
    return found


def read(bootstrap_servers: str, registry: FakeRegistry, topic: str) -> list[Any]:
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.address}) as client:
        deserialize = AvroDeserializer(client)
        return [deserialize(record.value, context) for record in read_topic(bootstrap_servers, topic)]


@pytest.mark.parametrize("rows", [10, 30_000])
def test_write_kafka_writes_whole_rows(
    spark: SparkSession, bootstrap_servers: str, topics: Topics, registry: FakeRegistry, rows: int
):
    topic = topics.create(partitions=2)
    frame = spark.range(rows, numPartitions=3).select("id", (F.col("id") % 7).alias("group"))
    given = options(bootstrap_servers, registry, "key", "value") | {"key.columns": "group"}
    written = write_kafka(frame, topic=topic, **given)
    assert written.records == rows
    found = read(bootstrap_servers, registry, topic)
    assert sorted(row["id"] for row in found) == list(range(rows))
    assert registry.subjects.keys() == {f"{topic}-key", f"{topic}-value"}
    assert len(registry.asked("POST", "/versions")) == 2


def test_rows_that_name_their_topic_have_a_subject_each(
    spark: SparkSession, bootstrap_servers: str, topics: Topics, registry: FakeRegistry
):
    names = [topics.create() for _ in range(2)]
    frame = spark.range(100, numPartitions=2).select(
        F.element_at(F.array(*map(F.lit, names)), (F.col("id") % 2 + 1).cast("int")).alias("topic"),
        F.struct("id").alias("value"),
    )
    write_kafka(frame, **options(bootstrap_servers, registry))
    assert registry.subjects.keys() == {f"{name}-value" for name in names}
    assert [len(read(bootstrap_servers, registry, name)) for name in names] == [50, 50]


def test_topics_of_transformed_rows_are_prepared(
    spark: SparkSession, bootstrap_servers: str, topics: Topics, registry: FakeRegistry
):
    topic = topics.create()
    prefix, rest = topic[:4], topic[4:]
    frame = spark.range(10).select(F.lit(rest).alias("topic"), F.struct("id").alias("value"))
    chain = {
        "transforms": "to", "transforms.to.type": "RegexRouter", "transforms.to.regex": "(.*)",
        "transforms.to.replacement": f"{prefix}$1",
    }  # fmt: skip
    write_kafka(frame, **options(bootstrap_servers, registry), **chain)
    assert list(registry.subjects) == [f"{topic}-value"]
    assert len(read(bootstrap_servers, registry, topic)) == 10


def test_batches_of_a_query_ask_the_registry_once(
    spark: SparkSession, bootstrap_servers: str, topics: Topics, registry: FakeRegistry, tmp_path: Path
):
    topic = topics.create()
    source = tmp_path / "source"
    for number in range(3):
        spark.range(number * 10, number * 10 + 10).write.mode("append").parquet(str(source))
    stream = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).parquet(str(source))
    write = exactly_once(topic=topic, **options(bootstrap_servers, registry))
    query = stream.writeStream.foreachBatch(write).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert len(registry.asked("POST", "/versions")) == 1
    assert len(registry.asked("GET", "/associations")) == 1
    assert sorted(row["id"] for row in read(bootstrap_servers, registry, topic)) == list(range(30))


def test_the_format_writes_avro(spark: SparkSession, bootstrap_servers: str, topics: Topics, registry: FakeRegistry):
    topic = topics.create()
    given = options(bootstrap_servers, registry)
    with users_thread(spark) as session:
        session.dataSource.register(FencepostDataSource)
        session.range(10).write.format("fencepost").options(**given, topic=topic).mode("append").save()
    assert sorted(row["id"] for row in read(bootstrap_servers, registry, topic)) == list(range(10))


@pytest.mark.parametrize("by_format", [True, False])
def test_keys_values_and_headers_have_their_own_converters(
    spark: SparkSession, bootstrap_servers: str, topics: Topics, registry: FakeRegistry, by_format: bool
):
    topic = topics.create()
    languages = {"key": "ProtobufConverter", "value": "AvroConverter", "header": "JsonSchemaConverter"}
    given = options(bootstrap_servers, registry, *languages) | {
        f"{role}.converter": converter for role, converter in languages.items()
    }
    with users_thread(spark) as session:
        frame = session.sql(
            "select id as key, struct(id, cast(-1.25 as decimal(38, 18)) as price, array(struct('a' as b), null) as many) "
            "as value, array(struct('h' as key, 'text' as value), struct('n' as key, null as value)) as headers from range(5)"
        )
        if by_format:
            session.dataSource.register(FencepostDataSource)
            frame.write.format("fencepost").options(**given, topic=topic).mode("append").save()
        else:
            write_kafka(frame, topic=topic, **given)
    reader = RegistryReader({"schema.registry.url": registry.address})
    records = sorted(read_topic(bootstrap_servers, topic), key=lambda record: record.key or b"")
    assert [reader.read(record.key or b"", is_key=True) for record in records] == list(range(5))
    assert [reader.read(record.value or b"", is_key=False) for record in records] == [
        {"id": number, "price": Decimal("-1.25"), "many": [{"b": "a"}, None]} for number in range(5)
    ]
    headers = [dict(record.headers) for record in records]
    assert {reader.read(found["h"] or b"", is_key=False) for found in headers} == {"text"}
    reader.close()


def test_the_format_refuses_rows_that_name_their_topic(
    spark: SparkSession, bootstrap_servers: str, registry: FakeRegistry
):
    with users_thread(spark) as session:
        session.dataSource.register(FencepostDataSource)
        frame = session.range(1).select(F.lit("t").alias("topic"), F.struct("id").alias("value"))
        write = frame.write.format("fencepost").options(**options(bootstrap_servers, registry)).mode("append")
        with pytest.raises(PySparkException, match="has to know the topics before the write"):
            write.save()


def test_a_refused_schema_fails_the_write_before_its_transaction(
    spark: SparkSession, bootstrap_servers: str, topics: Topics, registry: FakeRegistry
):
    topic = topics.create()
    registry.respond = lambda handler: send(
        handler, 409, b'{"error_code": 409, "message": "No, it is so"}', "application/json"
    )
    given = options(bootstrap_servers, registry) | {"errors.tolerance": "all"}
    with pytest.raises(RegistryRefusedError, match=re.escape(f"subject {topic}-value")):
        write_kafka(spark.range(3), topic=topic, **given)
    assert read_topic(bootstrap_servers, topic, isolation="read_uncommitted") == []
