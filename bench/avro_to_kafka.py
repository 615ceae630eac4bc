"""A file of ten columns into Kafka as Avro: fencepost, Spark's `to_avro` with Spark's sink, and Java Connect, in turn.

All share one machine, one broker, one file and one registry; the first round of each is thrown away. CPU time is that of
the contender's processes, without the broker's and the registry's.

    fencepost    exactly once: AvroConverter, one Kafka transaction a run, on Spark's executors
    sink         at least once: read.csv, to_avro behind five bytes of framing, write.format("kafka")
    java         at least once: Kafka Connect, FileStreamSource and Apicurio's AvroConverter, warm, all defaults; its time
                 begins with its first record in Kafka, so that the start of the connector is not in it. It has no source of
                 CSV: its records are the lines, each a text, which is less work

The columns: 2 BIGINT, 2 DOUBLE, 4 STRING of 10 characters, a TIMESTAMP, and an INT that is null in each third row. With
--text the file has lines of 100 bytes, and each contender writes them as texts. With --memory fencepost alone writes the
file twice, and its memory at each quarter of the second run is printed.

Run: .venv/bin/python bench/avro_to_kafka.py --rounds 5 --lines 2000000 [--text]
     .venv/bin/python bench/avro_to_kafka.py --memory --lines 10000000
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.avro.functions import to_avro

from fencepost.api.ddl import parse_columns
from fencepost.api.record import ArrowReader
from fencepost.connectors.files.formats.csv_reader import CsvReader
from fencepost.connectors.files.formats.line_reader import LineReader
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.avro.schema import avro_schema, schema_text
from fencepost.converters.json_schema import connect_schema
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.jars import KAFKA_VERSION, LOGGING_BACKEND, REGISTRY_VERSION, JarSet, class_path
from fencepost.embedded.java import find_java
from fencepost.embedded.ports import free_ports
from fencepost.embedded.process import kill, launch
from fencepost.embedded.properties import LOGGING
from fencepost.embedded.registry import API, EmbeddedRegistry
from fencepost.engine.engine import SparkEngine
from file_to_kafka import HEAP, LINE_BYTES, Bench, Figures, make_file, settings, sink_jars, spread

AVRO_JAR = "org.apache.spark spark-avro_2.13 4.1.1"
PREFIX = b"\0\0\0\0\1"
JAVA = JarSet(
    f"connect-apicurio-{KAFKA_VERSION}",
    f"Kafka Connect {KAFKA_VERSION} with Apicurio's converters",
    (
        ("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
        ("org.apache.kafka", "connect-file", KAFKA_VERSION),
        ("io.apicurio", "apicurio-registry-utils-converter", REGISTRY_VERSION),
        LOGGING_BACKEND,
    ),
)
SCHEMA = (
    "a BIGINT NOT NULL, b BIGINT NOT NULL, x DOUBLE NOT NULL, y DOUBLE NOT NULL, t0 STRING NOT NULL, t1 STRING NOT NULL, "
    "t2 STRING NOT NULL, t3 STRING NOT NULL, at TIMESTAMP NOT NULL, n INT"
)
ROW_BYTES = 112
LIMIT_SECONDS = 900
LOOK_SECONDS = 0.02


class JavaConnect:
    """A worker of Kafka Connect in Java, and a connector for each run."""

    def __init__(self, folder: Path, bootstrap_servers: str) -> None:
        self.servers = bootstrap_servers
        java = find_java()
        (self.port,) = free_ports(1)
        worker, logging = folder / "java.properties", folder / "logging.properties"
        logging.write_text(LOGGING)
        lines = {
            "bootstrap.servers": bootstrap_servers,
            "listeners": f"http://127.0.0.1:{self.port}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.storage.file.filename": str(folder / "java.offsets"),
        }
        worker.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        jars = os.pathsep.join(str(jar) for jar in class_path(java, JAVA))
        options = ("-Xmx768m", f"-Dlog4j2.configurationFile={logging.as_uri()}", "-cp", jars)
        command = [str(java.executable), *options, "org.apache.kafka.connect.cli.ConnectStandalone", str(worker)]
        self.process = launch(command, folder / "java.log")

    def ask(self, method: str, path: str, body: object = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def run(self, topic: str, file: Path, lines: int, partitions: int, more: Mapping[str, str]) -> Figures:
        """Write the lines of a file to Kafka with a new connector, which has `more` properties."""
        config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, **more}
        reader = Consumer({"bootstrap.servers": self.servers, "group.id": "bench"})
        cpu = self.cpu_seconds()
        status = self.ask("PUT", f"/connectors/{topic}/config", config)
        assert status == http.HTTPStatus.CREATED, status
        written(reader, topic, partitions, 1)
        started = time.perf_counter()
        written(reader, topic, partitions, lines)
        seconds, spent = time.perf_counter() - started, self.cpu_seconds() - cpu
        self.ask("DELETE", f"/connectors/{topic}")
        reader.close()
        return Figures(lines / seconds, spent * 1e6 / lines)

    def cpu_seconds(self) -> float:
        return sum(psutil.Process(self.process.pid).cpu_times()[:2])


def written(reader: Consumer, topic: str, partitions: int, wanted: int) -> None:
    """Wait until a topic has this many records."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while sum(end_of(reader, TopicPartition(topic, number)) for number in range(partitions)) < wanted:
        assert time.monotonic() < deadline, f"{topic} has fewer than {wanted} records"
        time.sleep(LOOK_SECONDS)


def end_of(reader: Consumer, partition: TopicPartition) -> int:
    try:
        return int(reader.get_watermark_offsets(partition)[1])
    except KafkaException:
        # A client may not know of a topic that has just been created.
        return 0


@contextmanager
def java_connect(folder: Path, bootstrap_servers: str) -> Iterator[JavaConnect]:
    found = JavaConnect(folder, bootstrap_servers)
    try:
        while found.ask("GET", "/connectors") != http.HTTPStatus.OK:
            assert found.process.poll() is None, (folder / "java.log").read_text()[-2000:]
            time.sleep(0.2)
        yield found
    finally:
        kill(found.process)


def make_rows(folder: Path, rows: int) -> Path:
    """Generate CSV rows of SCHEMA, all of equal length: where a column is null, a number gets more digits."""
    file = folder / f"rows-{rows}.csv"
    with file.open("w") as out:
        for first in range(0, rows, 10_000):
            out.write("".join(map(csv_row, range(first, min(first + 10_000, rows)))))
    assert file.stat().st_size == rows * ROW_BYTES
    return file


def csv_row(number: int) -> str:
    texts = ",".join(f"{(number + column) * 7919 % 10**10:010d}" for column in range(4))
    digits, last = (10, "") if number % 3 == 0 else (6, f"{number % 9000 + 1000}")
    x, y = f"0.{number * 104729 % 10**digits:0{digits}d}", f"0.{number * 1299709 % 10**6:06d}"
    moment = f"2026-11-{number // 86400 % 28 + 1:02d}T12:{number // 60 % 60:02d}:{number % 60:02d}.{number % 1000:03d}Z"
    return f"{10**8 + number},{10**8 + number * 7919 % (9 * 10**8)},{x},{y},{texts},{moment},{last}\n"


def reader_of(*, text: bool) -> ArrowReader:
    columns = parse_columns(SCHEMA)
    return LineReader() if text else CsvReader(columns=columns, file_columns=tuple(columns.names))


def contenders(
    bench: Bench, registry: EmbeddedRegistry, java: JavaConnect, *, text: bool
) -> dict[str, Callable[[str], Figures]]:
    converter = AvroConverter()
    converter.configure({"schema.registry.url": registry.url}, is_key=False)

    def fencepost(topic: str) -> Figures:
        return bench.timed(lambda: bench.write(topic, reader_of(text=text), converter))

    def frame() -> DataFrame:
        read = bench.engine.session().read
        if text:
            return read.text(f"file://{bench.file}").select(to_avro("value", '"string"').alias("avro"))
        written = schema_text(avro_schema(connect_schema(parse_columns(SCHEMA), optional=False)))
        rows = read.schema(SCHEMA).csv(f"file://{bench.file}")
        return rows.select(to_avro(F.struct("*"), written).alias("avro"))

    def sink(topic: str) -> Figures:
        framed = frame().select(F.concat(F.lit(PREFIX), "avro").alias("value"))
        writer = framed.write.format("kafka").option("kafka.bootstrap.servers", bench.servers)
        return bench.timed(lambda: writer.option("topic", topic).save())

    avro = {
        "value.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        "value.converter.apicurio.registry.url": registry.url.replace(API, "/apis/registry/v2"),
        "value.converter.apicurio.registry.auto-register": "true",
    }

    def in_java(topic: str) -> Figures:
        return java.run(topic, bench.file, bench.lines, bench.partitions, avro)

    return {"fencepost": fencepost, "sink": sink, "java": in_java}


def bench_of(broker: EmbeddedBroker, engine: SparkEngine, file: Path, arguments: argparse.Namespace) -> Bench:
    bench = Bench(broker, engine, file, arguments.lines, arguments.partitions)
    bench.line_bytes = LINE_BYTES if arguments.text else ROW_BYTES
    return bench


def memory(arguments: argparse.Namespace, folder: Path) -> None:
    """Print fencepost's memory use at each quarter of one long run."""
    file = (make_file if arguments.text else make_rows)(folder, arguments.lines)
    heap = {"spark.driver.extraJavaOptions": f"-Xms{HEAP} -XX:+AlwaysPreTouch"}
    with EmbeddedBroker(folder / "broker") as broker, EmbeddedRegistry(folder / "registry") as registry:
        engine = SparkEngine({**settings([]), **heap})
        engine.session()
        bench = bench_of(broker, engine, file, arguments)
        converter = AvroConverter()
        converter.configure({"schema.registry.url": registry.url}, is_key=False)
        found: list[int] = []
        done = threading.Event()

        def sample() -> None:
            while not done.wait(0.5):
                found.append(bench.resident_bytes())

        sampler = threading.Thread(target=sample)
        # The first run starts Spark's Python workers.
        with bench.topic() as topic:
            bench.write(topic, reader_of(text=arguments.text), converter)
        with bench.topic() as topic:
            sampler.start()
            figures = bench.timed(lambda: bench.write(topic, reader_of(text=arguments.text), converter))
            done.set()
            sampler.join()
        engine.stop()
    print(f"{arguments.lines:,} rows, {figures.rate:,.0f}/s, {figures.cpu:.3f} us of CPU a row")
    for quarter in range(1, 5):
        # The samples of the eighth of the run that ends here.
        end = len(found) * quarter // 4
        part = found[max(0, end - max(1, len(found) // 8)) : end]
        print(f"{quarter}/4 of the run: {statistics.median(part) / 2**20:,.0f} MiB (most {max(part) / 2**20:,.0f})")


def compare(arguments: argparse.Namespace, folder: Path) -> None:
    file = (make_file if arguments.text else make_rows)(folder, arguments.lines)
    jars = sink_jars(folder / "jars", (AVRO_JAR,))
    results: dict[str, list[Figures]] = {}
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(folder / "broker"))
        registry = stack.enter_context(EmbeddedRegistry(folder / "registry"))
        engine = SparkEngine(settings(jars))
        stack.callback(engine.stop)
        bench = bench_of(broker, engine, file, arguments)
        java = stack.enter_context(java_connect(folder, bench.servers))
        bench.ignore(java.process.pid)
        for number in range(arguments.rounds + 1):
            for name, run in contenders(bench, registry, java, text=arguments.text).items():
                with bench.topic() as topic:
                    figures = run(topic)
                load = os.getloadavg()[0]
                told = f"{figures.rate:12,.0f}/s {figures.cpu:7.3f} us, load {load:.1f}"
                print(f"round {number} {name:9} {told}", flush=True)
                if number:
                    results.setdefault(name, []).append(figures)
    print(f"\n{'':10}{'1,000 records/s':>27}{'CPU us a record':>27}  (min median max; fencepost's ratio, median)")
    for name, runs in results.items():
        ours = results["fencepost"]
        rate = statistics.median(own.rate / other.rate for own, other in zip(ours, runs, strict=True))
        cpu = statistics.median(own.cpu / other.cpu for own, other in zip(ours, runs, strict=True))
        rates, times = spread([figures.rate / 1e3 for figures in runs]), spread([figures.cpu for figures in runs])
        print(f"{name:10}{rates:>27}{times:>27}   rate x {rate:.2f}, CPU x {cpu:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the file and the broker's data go")
    parser.add_argument("--text", action="store_true", help="lines of text in place of ten columns")
    parser.add_argument("--memory", action="store_true", help="print the memory of one run instead")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        (memory if arguments.memory else compare)(arguments, Path(folder))


if __name__ == "__main__":
    main()
