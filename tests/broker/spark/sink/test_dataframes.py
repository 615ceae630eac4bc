"""write_kafka: columns, converters and transforms, and runs that are written once."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.engine.errors import SparkDataError
from fencepost.spark import write_kafka
from tests.support.checker import read_topic
from tests.support.processes import wait_for
from tests.support.spark_queries import STORAGE_TOPIC, texts
from tests.support.topics import Topics, unique


def test_write_kafka_takes_the_columns_of_sparks_own_sink(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    # Brokers delete records with timestamps as old as these within minutes.
    kept = {"retention.ms": "-1"}
    one, two = topics.create(partitions=3, config=kept), topics.create(config=kept)
    frame = spark.createDataFrame(
        [
            (bytearray(b"k\xff"), "v1", one, [("h", bytearray(b"\x00\x01"))], 2, 1_700_000_000_123),
            (None, None, two, None, None, 1_700_000_000_456),
        ],
        "key BINARY, value STRING, topic STRING, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT, at LONG",
    ).withColumn("timestamp", F.timestamp_millis("at"))
    written = write_kafka(frame, **{"kafka.bootstrap.servers": bootstrap_servers})
    assert (written.records, written.skipped) == (2, False)
    (first,) = read_topic(bootstrap_servers, one)
    assert (first.key, first.value, first.partition, first.timestamp) == (b"k\xff", b"v1", 2, 1_700_000_000_123)
    assert first.headers == (("h", b"\x00\x01"),)
    (second,) = read_topic(bootstrap_servers, two)
    assert (second.key, second.value, second.headers, second.timestamp) == (None, None, (), 1_700_000_000_456)


@pytest.mark.parametrize("rows", [3, 3_000], ids=["by the driver", "by executors"])
def test_headers_of_shuffled_rows_are_kept_if_spark_gives_text_with_64_bit_offsets(
    spark: SparkSession, bootstrap_servers: str, topics: Topics, rows: int
):
    topic = topics.create(partitions=2)
    pair = "NAMED_STRUCT('key', CONCAT('name', id), 'value', CONCAT('of ', id))"
    frame = spark.range(0, rows, 1, 2).selectExpr("id AS key", "id AS value", f"ARRAY({pair}) AS headers")
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        write_kafka(frame, topic=topic, **{"bootstrap.servers": bootstrap_servers})
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    found = [(record.value, record.headers) for record in read_topic(bootstrap_servers, topic)]
    texts_of_ids = map(str, range(rows))
    assert sorted(found) == sorted((n.encode(), ((f"name{n}", f"of {n}".encode()),)) for n in texts_of_ids)


def test_write_kafka_converts_whole_rows_with_key_columns(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=3)
    frame = spark.range(100).select(F.col("id"), (F.col("id") % 7).cast("string").alias("group"))
    options = {"value.converter": "JsonConverter", "value.converter.schemas.enable": False, "key.columns": "group"}
    write_kafka(frame.repartition(4), topic=topic, **{"bootstrap.servers": bootstrap_servers, **options})
    found = read_topic(bootstrap_servers, topic)
    assert sorted((r.value or b"").decode() for r in found) == sorted(
        f'{{"id":{n},"group":"{n % 7}"}}' for n in range(100)
    )
    assert {r.key for r in found} == {str(n).encode() for n in range(7)}
    assert len({(r.key, r.partition) for r in found}) == 7


def test_a_dataframe_passes_a_chain_of_transforms(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    topic = topics.create()
    frame = spark.range(3).select(F.struct("id").alias("value"))
    chain = {"transforms": "only", "transforms.only.type": "ExtractField$Value", "transforms.only.field": "id"}
    write_kafka(
        frame, topic=topic, **{"bootstrap.servers": bootstrap_servers, "value.converter": "StringConverter", **chain}
    )
    assert texts(bootstrap_servers, topic) == ["0", "1", "2"]


@pytest.mark.parametrize("transformed", [False, True])
def test_a_time_without_a_zone_is_utc_in_any_session_time_zone(
    spark: SparkSession, bootstrap_servers: str, topics: Topics, *, transformed: bool
):
    topic = topics.create(config={"retention.ms": "-1"})
    chain = {"transforms": "drop", "transforms.drop.type": "DropHeaders", "transforms.drop.headers": "none"}
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        # The first one is a time that clocks in New York skip.
        times = spark.sql(
            "SELECT CAST(at AS STRING) AS value, at AS timestamp FROM VALUES (TIMESTAMP_NTZ '2026-03-08 02:30:00.123456'), "
            "(TIMESTAMP_NTZ '2025-11-23 12:00:00') AS rows(at)"
        )
        write_kafka(times, topic=topic, **{"bootstrap.servers": bootstrap_servers, **(chain if transformed else {})})
        zoned = times.selectExpr("value", "CAST(timestamp AS TIMESTAMP) AS timestamp").where("value < '2026'")
        write_kafka(zoned, topic=topic, **{"bootstrap.servers": bootstrap_servers, **(chain if transformed else {})})
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    found = [((record.value or b"").decode(), record.timestamp) for record in read_topic(bootstrap_servers, topic)]
    assert sorted(found) == [
        ("2025-11-23 12:00:00", 1_763_899_200_000),
        ("2025-11-23 12:00:00", 1_763_899_200_000 + 5 * 3_600_000),
        ("2026-03-08 02:30:00.123456", 1_772_937_000_123),
    ]


def test_a_run_is_written_once(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    topic = topics.create()
    frame = spark.range(3).selectExpr("id AS value")
    options = {"topic": topic, "bootstrap.servers": bootstrap_servers}
    assert write_kafka(frame, run="2026-11-22", **options).records == 3
    assert write_kafka(frame, run="2026-11-22", **options).skipped
    assert texts(bootstrap_servers, topic) == ["0", "1", "2"]
    assert write_kafka(frame, run="2026-11-23", **options).records == 3
    assert write_kafka(frame, run="2026-11-22", **options).skipped
    assert len(texts(bootstrap_servers, topic)) == 6


def test_a_run_whose_topic_was_created_again_is_refused(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    topic = topics.create()
    frame = spark.range(3).selectExpr("id AS value")
    options = {"topic": topic, "bootstrap.servers": bootstrap_servers, "run": "1"}
    write_kafka(frame, **options)
    topics.delete(topic)
    wait_for(lambda: topics.partitions(topic) is None)
    topics.create(topic)
    with pytest.raises(FencepostError, match="was deleted and created again"):
        write_kafka(frame, **options)


@pytest.mark.parametrize("rows", [50, 5_000], ids=["by the driver", "by executors"])
@pytest.mark.parametrize("named_by_rows", [False, True])
def test_a_topic_that_has_fewer_partitions_since_an_earlier_write_is_written(
    spark: SparkSession, bootstrap_servers: str, topics: Topics, rows: int, *, named_by_rows: bool
):
    topic = topics.create(partitions=3)
    frame = spark.range(0, rows, 1, 3).selectExpr("id % 11 AS key", "id AS value", f"'{topic}' AS topic")
    options = {"bootstrap.servers": bootstrap_servers}
    if not named_by_rows:
        frame, options = frame.drop("topic"), {"topic": topic, **options}
    write_kafka(frame, **options)
    topics.delete(topic)
    wait_for(lambda: topics.partitions(topic) is None)
    topics.create(topic, partitions=1)
    assert write_kafka(frame, **options).records == rows
    assert texts(bootstrap_servers, topic) == sorted(map(str, range(rows)))


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, bootstrap_servers: str, topics: Topics):
    topic = topics.create(partitions=2)
    failing = F.when(F.col("id") == 99_990, F.raise_error(F.lit("bad row"))).otherwise(F.col("id").cast("string"))
    frame = spark.range(0, 100_000, 1, 3).select(failing.alias("value"))
    with pytest.raises(SparkDataError, match="bad row"):
        write_kafka(frame, topic=topic, run="1", **{"bootstrap.servers": bootstrap_servers})
    assert texts(bootstrap_servers, topic) == []
    write_kafka(
        spark.range(1).selectExpr("id AS value"), topic=topic, run="1", **{"bootstrap.servers": bootstrap_servers}
    )
    assert texts(bootstrap_servers, topic) == ["0"]


def test_a_row_for_the_topic_of_the_progress_is_refused(spark: SparkSession, bootstrap_servers: str):
    frame = spark.range(1).select(F.lit("x").alias("value"), F.lit(STORAGE_TOPIC).alias("topic"))
    with pytest.raises(ConfigError, match="holds the progress of sinks"):
        write_kafka(frame, name=unique("sink"), run="1", **{"bootstrap.servers": bootstrap_servers})
