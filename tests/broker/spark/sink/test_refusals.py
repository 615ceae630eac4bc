"""Data that cannot be written are refused with a remedy; and the page's first example runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fencepost.api.errors import ConfigError, DataError, FencepostError
from fencepost.embedded.java import find_java
from fencepost.engine.spark.session import make_java_home
from fencepost.spark import ExactlyOnce, write_kafka
from tests.support.checker import read_topic
from tests.support.processes import Process, wait_for
from tests.support.spark_queries import FileQuery
from tests.support.topics import Topics

PATIENCE = 400.0


def test_a_session_that_may_write_twice_is_refused_with_the_line_to_add(query: FileQuery, spark: SparkSession):
    settings = spark.sparkContext._jsc.sc().conf()
    settings.set("spark.stage.maxConsecutiveAttempts", "4")
    try:
        text = query.refusal()
    finally:
        settings.set("spark.stage.maxConsecutiveAttempts", "1")
    assert '.config("spark.stage.maxConsecutiveAttempts", "1")' in text


@pytest.mark.parametrize(
    ("columns", "options", "error", "text"),
    [
        (["id"], {"topic": "t"}, ConfigError, "name one of them 'value', or set value.converter"),
        (["id AS value"], {}, ConfigError, "set the option topic"),
        (["struct(id) AS value"], {"topic": "t"}, DataError, "set value.converter, for example to JsonConverter"),
        (["id"], {"topic": "t", "value.converter": "JsonConverter", "key.columns": "no"}, ConfigError, "names 'no'"),
        (["id AS value"], {"topic": "t", "topics": "t"}, ConfigError, "did you mean topic"),
        (["id AS value"], {"topic": "t", "acks": "1"}, ConfigError, "acks"),
        (["INTERVAL '1' MONTH AS value"], {"topic": "t"}, DataError, "'value' .* is interval month.*cast it to STRING"),
        (
            ["array(struct(INTERVAL '1' YEAR AS due)) AS terms"],
            {"topic": "t", "value.converter": "JsonConverter"},
            DataError,
            "'value.terms.due' .*interval year.*cast it to STRING",
        ),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_written_are_refused(
    spark: SparkSession, columns: list[str], options: dict[str, str], error: type[Exception], text: str
):
    with pytest.raises(error, match=text):
        write_kafka(spark.range(1).selectExpr(*columns), **{"bootstrap.servers": "127.0.0.1:9", **options})


def test_a_stream_is_refused_where_a_dataframe_is_written(spark: SparkSession, bootstrap_servers: str):
    stream = spark.readStream.format("rate").load().selectExpr("string(value) AS value")
    with pytest.raises(ConfigError, match=r"is a stream: use frame\.writeStream\.foreachBatch\(exactly_once"):
        write_kafka(stream, topic="t", **{"bootstrap.servers": bootstrap_servers})


def test_a_call_without_a_streaming_query_is_refused(spark: SparkSession, sink: ExactlyOnce):
    with pytest.raises(FencepostError, match="without a streaming query"):
        sink(spark.range(1).selectExpr("id AS value"), 0)


def test_the_first_example_of_the_page_runs(bootstrap_servers: str, topics: Topics, tmp_path: Path):
    """The example runs as a script, with its own session."""
    page = (Path(__file__).parents[4] / "docs" / "spark.md").read_text()
    topic = topics.create()
    script = tmp_path / "orders.py"
    script.write_text(page.split("```python\n")[1].partition("```")[0].replace('"orders"', f'"{topic}"'))
    environment = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": make_java_home(find_java(), tmp_path / "java")}
    command = ["env", "-C", str(tmp_path), *(f"{name}={value}" for name, value in environment.items())]
    with Process([*command, sys.executable, str(script), bootstrap_servers], tmp_path / "log") as driver:
        wait_for(lambda: not driver.running or len(read_topic(bootstrap_servers, topic)) >= 100, PATIENCE)
        assert driver.running, driver.output[-3000:]
    keys = sorted(int(record.key or b"") for record in read_topic(bootstrap_servers, topic))
    assert keys == list(range(len(keys)))
