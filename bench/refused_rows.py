"""The cost of refused rows in Spark's jobs: every sixth row of a batch is refused and becomes a dead letter.

    sql        an expression of Sql refuses them
    author     an author's Transformation does, by a column of Spark
    function   a function on Arrow columns does
    converter  the value converter does, after Sql

Seconds from read to commit, and seconds of CPU of this process and all below it but the broker. All rounds share one machine, one
broker and one Spark session; the first round of each is thrown away.

Run: .venv/bin/python bench/refused_rows.py --rounds 5 --rows 200000 [--only sql]
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import itertools
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost import transform
from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import DataError
from fencepost.api.plugin import Transformation
from fencepost.api.record import SourceBatch
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.converters import StringConverter
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.topic_gate import TopicGate
from fencepost.transforms.chain import Step
from fencepost.transforms.sql import Sql
from transforms import Bench, configured, cpu_seconds, shown

SPLITS = 8


@dataclass(frozen=True)
class Texts:
    """Reads texts, every sixth of which is not a number; a split is a range of numbers."""

    schema: str = "value STRUCT<text: STRING, note: STRING>"

    def read(self, split: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        for first in range(*split, 10_000):
            numbers = range(first, min(first + 10_000, split[1]))
            rows = [{"text": f"no{n}" if n % 6 == 0 else str(n), "note": "x" * 60} for n in numbers]
            yield pa.RecordBatch.from_pydict({"value": pa.array(rows)})


class AsNumber(Transformation):
    """A transformation by an author of connectors."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        pass

    def apply(self, records: DataFrame) -> DataFrame:
        return records.withColumn("value", F.col("value.text").cast("INT"))


@transform(schema="BIGINT")
def as_number(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pc.cast(rows["text"], pa.int64()), "__row": rows["__row"]})


class Numbers(StringConverter):
    """Refuses texts that are not numbers."""

    def from_connect_data(self, topic: str, schema: Any, values: pa.Array) -> pa.Array:
        if bad := [text for text in values.to_pylist() if text.startswith("no")]:
            raise DataError(f"{bad[0]} is no number")
        return super().from_connect_data(topic, schema, values)


CHAINS: dict[str, list[Step]] = {
    "sql": [configured(Sql(), {"value": "named_struct('n', CAST(value.text AS INT))"})],
    "author": [Step(AsNumber())],
    "function": [configured(as_number(), {})],
    "converter": [configured(Sql(), {"value": "value.text"})],
}


def written(bench: Bench, name: str, rows: int) -> float:
    """Write the batch; return the seconds from read to commit."""
    topic, dead = bench.new_topic(), bench.new_topic()
    pipeline = replace(bench.pipeline(CHAINS[name], topic), errors=ErrorHandling(Tolerance.ALL, dead_letter_topic=dead))
    if name == "converter":
        value = Numbers()
        value.configure({}, is_key=False)
        pipeline = replace(pipeline, value_converter=value)
    cuts = [rows * part // SPLITS for part in range(SPLITS + 1)]
    batch = SourceBatch(reader=Texts(), splits=list(itertools.pairwise(cuts)))
    started = time.perf_counter()
    bench.producer.begin_transaction()
    result = bench.engine.write(
        batch, pipeline, bench.producer, task="bench", cancelled=threading.Event(), topic_gate=TopicGate(None)
    )
    bench.producer.commit_transaction()
    if result.errors.skipped != len(range(0, rows, 6)):
        raise RuntimeError(f"{result.errors.skipped} rows were skipped")
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--only", choices=CHAINS)
    parser.add_argument("--profile", action="store_true", help="show where this process spends the last round")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "broker") as broker:
        bench = Bench(broker.bootstrap_servers, Path(folder), arguments.rows, partitions=2)
        for name in [arguments.only] if arguments.only else CHAINS:
            times, cpu = [], []
            for number in range(arguments.rounds + 1):
                before = cpu_seconds(bench.others)
                last = arguments.profile and number == arguments.rounds
                profile = cProfile.Profile() if last else contextlib.nullcontext()
                with profile:
                    times.append(written(bench, name, arguments.rows))
                cpu.append(cpu_seconds(bench.others) - before)
            print(f"{name}: {shown(times[1:])} s, CPU {shown(cpu[1:])} s", flush=True)
            if isinstance(profile, cProfile.Profile):
                profile.print_stats("cumulative")
        bench.engine.stop()


if __name__ == "__main__":
    main()
