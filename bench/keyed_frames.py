"""A DataFrame with keys and the same one without: the cost of the shuffle to the writers of topic partitions.

    python bench/keyed_frames.py [--rows 500000] [--partitions 1 4 16 64] [--rounds 5]

Values of 100 bytes in four files of Parquet, written by `write_kafka` in one warm local session, in turn. CPU time, in
microseconds a row, of this process, its JVM and its Python workers, without the broker's. The first round is thrown away.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.spark import write_kafka

WRITERS = 4


def cpu_seconds(without: frozenset[int]) -> float:
    """CPU time of this process and all its descendants, ended ones included."""
    spent = 0.0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        if process.pid not in without:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                ended = 0.0 if process == own else times.children_user + times.children_system
                spent += times.user + times.system + ended
    return spent


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{WRITERS}]").config("spark.ui.enabled", "false")
    return builder.config("spark.stage.maxConsecutiveAttempts", "1").getOrCreate()


def source(spark: SparkSession, folder: Path, rows: int) -> None:
    numbers = spark.range(0, rows, 1, WRITERS)
    key = F.concat(F.lit("k"), F.col("id") * 7919 % 100_003)
    numbers.select(key.alias("key"), F.repeat(F.lit("x"), 100).alias("value")).write.parquet(str(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    found: dict[tuple[int, bool], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "broker") as broker:
        without = frozenset(process.pid for process in psutil.Process().children(recursive=True))
        spark = session()
        source(spark, Path(folder) / "rows", arguments.rows)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(arguments.rounds + 1):
            for partitions in arguments.partitions:
                for keyed in (True, False):
                    topic = f"rows-{partitions}-{keyed}-{number}"
                    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
                    frame = spark.read.parquet(str(Path(folder) / "rows"))
                    before = cpu_seconds(without)
                    write_kafka(
                        frame if keyed else frame.select("value"),
                        topic=topic,
                        run=topic,
                        bootstrap_servers=broker.bootstrap_servers,
                    )
                    if number:
                        found[partitions, keyed].append((cpu_seconds(without) - before) / arguments.rows * 1e6)
    print(f"{'partitions':>12} {'keyed, us a row':>22} {'without, us a row':>22} {'ratio':>7}")
    for partitions in arguments.partitions:
        keyed_us, plain_us = found[partitions, True], found[partitions, False]
        ratio = statistics.median(one / other for one, other in zip(keyed_us, plain_us, strict=True))
        print(f"{partitions:>12} {spread(keyed_us):>22} {spread(plain_us):>22} {ratio:>7.1f}")


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    main()
