"""format("fencepost") with Spark's defaults, for DataFrames and streams: Spark runs tasks and stages again."""

from __future__ import annotations

import os
import re
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.engine.engine import SparkEngine
from fencepost.engine.spark.session_settings import REQUIRED
from tests.support.checker import log_ends, read_topic
from tests.support.processes import wait_for
from tests.support.spark_format import COUNT, PATIENCE, numbers, save, values, waits_until_written
from tests.support.spark_queries import FileQuery, texts, users_session
from tests.support.topics import Topics, unique

# Tests wait for rows, also from Python workers that have just been started.
pytestmark = pytest.mark.timeout(1_500)

MANY = 200_000
_LATE = 15
"""The number of an Arrow batch so late that earlier batches have left the buffers between two Python workers."""

FAILURES = (PySparkException, Py4JError)


@pytest.fixture(scope="module")
def local_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Spark's shuffle files."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark(local_dir: Path) -> Iterator[SparkSession]:
    settings = {
        "spark.master": "local[2,4]",
        "spark.task.maxFailures": "4",
        "spark.stage.maxConsecutiveAttempts": "4",
        "spark.local.dir": str(local_dir),
        "spark.sql.shuffle.partitions": "2",
        # Without adaptive execution, the stage that reads the shuffle is the stage that writes to Kafka.
        "spark.sql.adaptive.enabled": "false",
        "spark.shuffle.reduceLocality.enabled": "false",
    }
    with pytest.MonkeyPatch.context() as patch:
        # fencepost's own session forbids that a stage runs again; Spark's default allows it.
        patch.delitem(REQUIRED, "spark.stage.maxConsecutiveAttempts")
        engine = SparkEngine(settings)
        engine.session()
    with users_session(engine) as session:
        yield session


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.create(partitions=2)


@pytest.mark.parametrize("partitions", [1, 9])
def test_a_run_is_written_once_by_any_number_of_tasks(
    spark: SparkSession, bootstrap_servers: str, topic: str, partitions: int
):
    run = unique("run")
    for _ in range(2):
        save(values(spark, partitions), bootstrap_servers, topic, run=run)
    assert numbers(bootstrap_servers, topic) == list(range(COUNT))


def test_a_dataframe_with_converters_becomes_structs(spark: SparkSession, bootstrap_servers: str, topic: str):
    options = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false", "key.columns": "b"}
    frame = spark.range(0, 3, numPartitions=2).selectExpr("id AS a", "'k' || id AS b")
    save(frame, bootstrap_servers, topic, **options)
    assert sorted(texts(bootstrap_servers, topic)) == [f'{{"a":{n},"b":"k{n}"}}' for n in range(3)]
    assert sorted(record.key or b"" for record in read_topic(bootstrap_servers, topic)) == [b"k0", b"k1", b"k2"]


def test_rows_with_keys_go_where_their_keys_belong(spark: SparkSession, bootstrap_servers: str, topic: str):
    frame = values(spark, 3, 900).withColumn("key", (F.col("value").cast("int") % 5).cast("string"))
    save(frame, bootstrap_servers, topic)
    assert numbers(bootstrap_servers, topic) == list(range(900))
    places: dict[bytes | None, set[int]] = {}
    for record in read_topic(bootstrap_servers, topic):
        places.setdefault(record.key, set()).add(record.partition)
    assert {len(found) for found in places.values()} == {1}


def test_a_task_whose_python_worker_dies_fails_the_write(
    spark: SparkSession, bootstrap_servers: str, topic: str, tmp_path: Path
):
    died = tmp_path / "died"
    with waits_until_written(bootstrap_servers, topic, tmp_path / "written") as wait:

        def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(batches):
                yield batch
                if number == _LATE and not died.exists():
                    wait()
                    died.touch()
                    os.kill(os.getpid(), signal.SIGKILL)

        frame = values(spark, 1, MANY).mapInArrow(die_once, "value STRING")
        with pytest.raises(FAILURES, match="of a write again after an attempt that may have written"):
            save(frame, bootstrap_servers, topic, **{"kafka.batch.size": "16384"})
    assert died.exists()
    assert read_topic(bootstrap_servers, topic, isolation="read_uncommitted") != []
    assert read_topic(bootstrap_servers, topic) == []
    save(frame, bootstrap_servers, topic)
    assert numbers(bootstrap_servers, topic) == list(range(MANY))


def test_a_stage_that_lost_its_input_fails_the_write(
    spark: SparkSession, local_dir: Path, bootstrap_servers: str, topic: str, tmp_path: Path
):
    """One task reads two shuffle partitions.

    Kafka has its rows of the first one when the second one cannot be fetched.
    """
    lost = tmp_path / "lost"
    with waits_until_written(bootstrap_servers, topic, tmp_path / "written") as wait:

        def lose_shuffle_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches
            if not lost.exists():
                wait()
                files = list(local_dir.rglob("shuffle_*"))
                lost.write_text(str(len(files)))
                for file in files:
                    file.unlink()

        frame = values(spark, 2, MANY).repartition(2).mapInArrow(lose_shuffle_files, "value STRING").coalesce(1)
        with pytest.raises(FAILURES, match="of a write again after an attempt that may have written"):
            save(frame, bootstrap_servers, topic, **{"kafka.batch.size": "16384"})
    assert int(lost.read_text()) > 0
    assert read_topic(bootstrap_servers, topic, isolation="read_uncommitted") != []
    assert read_topic(bootstrap_servers, topic) == []
    save(frame, bootstrap_servers, topic)
    assert numbers(bootstrap_servers, topic) == list(range(MANY))


def other_each_time(frame: DataFrame) -> DataFrame:
    """Move each row to a random Spark partition, which changes each time the rows are computed."""
    salt = F.udf(lambda _: secrets.randbelow(1000), "INT")
    return frame.withColumn("salt", salt("value")).repartition(4, "salt").select("value")


def test_a_stage_that_gets_other_rows_when_it_is_run_again_fails_the_write(
    spark: SparkSession, local_dir: Path, bootstrap_servers: str, topic: str, tmp_path: Path
):
    """One task has written its rows when later tasks lose theirs.

    Computed again, these may include rows of the first task.
    """
    lost = tmp_path / "lost"
    with waits_until_written(bootstrap_servers, topic, tmp_path / "written") as wait:

        def lose_shuffle_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            if context is not None and context.partitionId() == 0 and not lost.exists():
                wait()
                files = list(local_dir.rglob("shuffle_*"))
                lost.write_text(str(len(files)))
                for file in files:
                    file.unlink()
            yield from batches
            # Two tasks run at a time, so that the later ones have not read their rows yet.
            deadline = time.monotonic() + PATIENCE
            while not lost.exists() and time.monotonic() < deadline:
                time.sleep(0.05)

        frame = other_each_time(values(spark, 4, MANY)).mapInArrow(lose_shuffle_files, "value STRING")
        with pytest.raises(FAILURES, match="indeterminate"):
            save(frame, bootstrap_servers, topic, **{"kafka.batch.size": "16384"})
    assert int(lost.read_text()) > 0
    assert read_topic(bootstrap_servers, topic, isolation="read_uncommitted") != []
    assert read_topic(bootstrap_servers, topic) == []


@pytest.fixture
def one_at_a_time(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    """A job that occupies one of the two cores, so that other jobs' tasks run one at a time."""
    begun, over = tmp_path / "begun", tmp_path / "over"

    def keep(_: int) -> None:
        begun.touch()
        wait_for(over.exists, 2 * PATIENCE)

    job = threading.Thread(target=spark.sparkContext.parallelize([0], 1).foreach, args=[keep])
    job.start()
    try:
        wait_for(begun.exists, PATIENCE)
        yield
    finally:
        over.touch()
        job.join()


@pytest.fixture
def random_frame(spark: SparkSession, local_dir: Path, tmp_path: Path) -> DataFrame:
    """The numbers below COUNT, which an RDD shuffles at random; the shuffle files are deleted once a task has its rows.

    A task writes the rows that it returned to a file "given-*". A task whose shuffle files were deleted returns none.
    No other task may run at that time: Spark would run it again with the stage, beside its first attempt and with other
    rows.
    """
    lost = tmp_path / "lost"

    def give(task: int, rows: Iterator[tuple[int, str]]) -> Iterator[tuple[str]]:
        mine = [text for _, text in rows]
        yield from zip(mine, strict=True)
        (tmp_path / f"given-{task}").write_text("\n".join(mine))
        if not lost.exists():
            lost.touch()
            for file in local_dir.rglob("shuffle_*"):
                file.unlink()

    numbered = spark.sparkContext.parallelize(range(COUNT), 4).map(lambda number: (number, str(number)))
    return numbered.partitionBy(6, lambda _: secrets.randbelow(1000)).mapPartitionsWithIndex(give).toDF("value STRING")


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("sink", ["parquet", "fencepost"])
def test_rows_that_spark_reads_wrongly_are_written_as_spark_reads_them(
    random_frame: DataFrame, bootstrap_servers: str, topic: str, tmp_path: Path, sink: str
):
    """Spark takes an RDD's function to be deterministic.

    If it is not, every sink gets some rows twice and others never.
    """
    if sink == "parquet":
        files = str(tmp_path / "parquet")
        random_frame.write.parquet(files)
        found = sorted(int(row.value) for row in random_frame.sparkSession.read.parquet(files).collect())
    else:
        save(random_frame, bootstrap_servers, topic)
        found = numbers(bootstrap_servers, topic)
    assert found == sorted(int(text) for file in tmp_path.glob("given-*") for text in file.read_text().split())
    assert set(found) < set(range(COUNT))
    assert len(set(found)) < len(found)


@pytest.mark.parametrize("check", ["enabled", "enableFullRetryOnMismatch"])
def test_a_session_whose_stages_may_get_other_rows_is_refused(
    spark: SparkSession, bootstrap_servers: str, topic: str, check: str
):
    setting = f"spark.sql.shuffle.orderIndependentChecksum.{check}"
    spark.conf.set(setting, "false")
    try:
        with pytest.raises(FAILURES, match=re.escape(f'spark.conf.set("{setting}", "true")')):
            save(values(spark, 2, 9), bootstrap_servers, topic)
    finally:
        spark.conf.unset(setting)
    assert read_topic(bootstrap_servers, topic, isolation="read_uncommitted") == []


def test_a_failure_of_the_query_leaves_nothing(spark: SparkSession, bootstrap_servers: str, topic: str):
    refuses = F.when(F.col("value") == "39999", F.raise_error(F.lit("a bad row"))).otherwise(F.col("value"))
    with pytest.raises(FAILURES):
        save(values(spark, 2).select(refuses.alias("value")), bootstrap_servers, topic)
    assert read_topic(bootstrap_servers, topic) == []


def test_the_first_failure_of_a_task_is_reported_after_its_repetitions(
    spark: SparkSession, bootstrap_servers: str, topic: str
):
    frame = values(spark, 1, 30_000).withColumn("partition", F.when(F.col("value") == "29999", 7).otherwise(0))
    with pytest.raises(FAILURES, match="A record is for partition 7"):
        save(frame, bootstrap_servers, topic)
    assert read_topic(bootstrap_servers, topic) == []


def test_options_that_a_data_source_cannot_have_are_refused_with_advice(
    spark: SparkSession, bootstrap_servers: str, topic: str
):
    told = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic}
    rows = values(spark, 1, 3)
    with pytest.raises(FAILURES, match=r'mode\("append"\)'):
        rows.write.format("fencepost").options(**told).mode("overwrite").save()
    with pytest.raises(FAILURES, match="only writes: read topics with"):
        spark.read.format("fencepost").options(**told).load()
    for options in (
        {"transforms": "a", "transforms.a.type": "Flatten$Value"},
        {"errors.tolerance": "all"},
        {"errors.deadletterqueue.topic.name": "letters"},
    ):
        with pytest.raises(FAILURES, match=r"use fencepost\.spark\.write_kafka"):
            save(rows, bootstrap_servers, topic, **options)
    assert read_topic(bootstrap_servers, topic) == []


def test_passwords_in_options_are_hidden_in_plans_and_messages(spark: SparkSession, topic: str):
    """The address is not a Kafka broker's, so the error is one of a client with these passwords."""
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter-22";'
    secured = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": jaas,
        "kafka.ssl.key.password": "hunter-33",
        "kafka.max.block.ms": "1",
        "kafka.request.timeout.ms": "1",
    }
    with pytest.raises(FAILURES) as raised:
        save(values(spark, 1, 3), "127.0.0.1:1", topic, **secured)
    store = spark._jsparkSession.sharedState().statusStore()
    plans = [store.executionsList().apply(n).physicalPlanDescription() for n in range(store.executionsCount())]
    assert any("AppendData" in plan or "fencepost" in plan for plan in plans), plans
    assert not [text for text in (*plans, str(raised.value)) if "hunter" in text]


@pytest.fixture
def stream(spark: SparkSession, bootstrap_servers: str, topic: str, tmp_path: Path) -> FileQuery:
    told = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic, "name": topic, "kafka.batch.size": "16384"}
    return FileQuery(spark, tmp_path, told)


def test_a_stream_is_written_once_however_often_its_batches_are_run(
    stream: FileQuery, bootstrap_servers: str, topic: str
):
    """Spark fails a stateful query if one of its batches is not executed."""
    stream.shape = lambda frame: frame.dropDuplicates(["value"])
    stream.add("a", "b")
    stream.add("b", "c")
    stream.run()
    stream.forget_commit(1)
    stream.add("c", "d")
    stream.run()
    assert texts(bootstrap_servers, topic) == ["a", "b", "c", "d"]
    older = stream.save()
    stream.add("e")
    stream.run()
    stream.restore(older)
    stream.add("f")
    # The copied checkpoint's newest batch is in Kafka, and its next batch number is there with other rows.
    with pytest.raises(StreamingQueryException, match="in Kafka, but with other rows"):
        stream.run()
    assert texts(bootstrap_servers, topic) == ["a", "b", "c", "d", "e"]


def test_a_failed_batch_of_a_stream_leaves_nothing_open_and_is_written_later(
    stream: FileQuery, bootstrap_servers: str, topic: str, tmp_path: Path
):
    """Spark retries the failing task, and must not commit the rows of its first attempt."""
    failed = tmp_path / "failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            yield batch
            if number == _LATE and not failed.exists():
                wait()
                failed.touch()
                raise ValueError("a row that cannot be read")

    with waits_until_written(bootstrap_servers, topic, tmp_path / "written") as wait:
        stream.shape = lambda frame: frame.mapInArrow(fail_once, "value STRING")
        stream.add(*(str(number) for number in range(MANY)))
        with pytest.raises(StreamingQueryException, match="of a write again after an attempt that may have written"):
            stream.run()
    written_to, stable_to = log_ends(bootstrap_servers, topic)
    assert sum(written_to) > 0
    assert stable_to == written_to, "a transaction is open"
    assert read_topic(bootstrap_servers, topic) == []
    stream.run()
    assert numbers(bootstrap_servers, topic) == list(range(MANY))


def test_a_stream_whose_checkpoint_is_a_setting_of_the_session_is_refused(
    spark: SparkSession, bootstrap_servers: str, topic: str, tmp_path: Path
):
    told = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic}
    rows = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        query = rows.writeStream.format("fencepost").options(**told).queryName(topic).start()
        with pytest.raises(StreamingQueryException, match=r"temporary checkpoints .*foreachBatch\(exactly_once"):
            query.awaitTermination(400)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert read_topic(bootstrap_servers, topic) == []
