"""A file of 100-byte lines into Kafka as Avro: fencepost, Spark's `to_avro` with Spark's sink, and Java Connect, in turn.

All share one machine, one broker, one file and one registry; the first round of each is thrown away. CPU time is that of
the contender's processes, without the broker's and the registry's.

    fencepost    exactly once: AvroConverter, one Kafka transaction a run, on Spark's executors
    sink         at least once: read.text, to_avro behind five bytes of framing, write.format("kafka")
    java         at least once: Kafka Connect, FileStreamSource and Apicurio's AvroConverter, warm, all defaults; its time
                 begins with its first record in Kafka, so that the start of the connector is not in it

Run: .venv/bin/python bench/avro_to_kafka.py --rounds 5 --lines 2000000
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.avro.functions import to_avro

from fencepost.connectors.files.formats.line_reader import LineReader
from fencepost.converters.avro.converter import AvroConverter
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.jars import KAFKA_VERSION, LOGGING_BACKEND, REGISTRY_VERSION, JarSet, class_path
from fencepost.embedded.java import find_java
from fencepost.embedded.ports import free_ports
from fencepost.embedded.process import kill, launch
from fencepost.embedded.properties import LOGGING
from fencepost.embedded.registry import API, EmbeddedRegistry
from fencepost.engine.engine import SparkEngine
from file_to_kafka import Bench, Figures, make_file, settings, sink_jars, spread

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
LIMIT_SECONDS = 900
LOOK_SECONDS = 0.02


class JavaConnect:
    """A worker of Kafka Connect in Java, and a connector for each run."""

    def __init__(self, folder: Path, bench: Bench, registry: str) -> None:
        self.bench = bench
        self.registry = registry
        java = find_java()
        (self.port,) = free_ports(1)
        worker, logging = folder / "java.properties", folder / "logging.properties"
        logging.write_text(LOGGING)
        lines = {
            "bootstrap.servers": bench.servers,
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

    def run(self, topic: str) -> Figures:
        config = {
            "connector.class": "FileStreamSource",
            "file": str(self.bench.file),
            "topic": topic,
            "value.converter": "io.apicurio.registry.utils.converter.AvroConverter",
            "value.converter.apicurio.registry.url": self.registry,
            "value.converter.apicurio.registry.auto-register": "true",
        }
        reader = Consumer({"bootstrap.servers": self.bench.servers, "group.id": "bench"})
        cpu = self.cpu_seconds()
        status = self.ask("PUT", f"/connectors/{topic}/config", config)
        assert status == http.HTTPStatus.CREATED, status
        written(reader, topic, self.bench.partitions, 1)
        started = time.perf_counter()
        written(reader, topic, self.bench.partitions, self.bench.lines)
        seconds, spent = time.perf_counter() - started, self.cpu_seconds() - cpu
        self.ask("DELETE", f"/connectors/{topic}")
        reader.close()
        return Figures(self.bench.lines / seconds, spent * 1e6 / self.bench.lines)

    def cpu_seconds(self) -> float:
        return sum(psutil.Process(self.process.pid).cpu_times()[:2])


def written(reader: Consumer, topic: str, partitions: int, wanted: int) -> None:
    """Wait until a topic has so many records."""
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
def java_connect(folder: Path, bench: Bench, registry: str) -> Iterator[JavaConnect]:
    found = JavaConnect(folder, bench, registry)
    try:
        while found.ask("GET", "/connectors") != http.HTTPStatus.OK:
            assert found.process.poll() is None, (folder / "java.log").read_text()[-2000:]
            time.sleep(0.2)
        yield found
    finally:
        kill(found.process)


def contenders(bench: Bench, registry: EmbeddedRegistry, java: JavaConnect) -> dict[str, Callable[[str], Figures]]:
    converter = AvroConverter()
    converter.configure({"schema.registry.url": registry.url}, is_key=False)

    def fencepost(topic: str) -> Figures:
        return bench.timed(lambda: bench.write(topic, LineReader(), converter))

    def sink(topic: str) -> Figures:
        framed = F.concat(F.lit(PREFIX), to_avro("value", '"string"')).alias("value")
        frame = bench.engine.session().read.text(f"file://{bench.file}").select(framed)
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", bench.servers)
        return bench.timed(lambda: writer.option("topic", topic).save())

    return {"fencepost": fencepost, "sink": sink, "java": java.run}


def compare(arguments: argparse.Namespace, folder: Path) -> None:
    file = make_file(folder, arguments.lines)
    jars = sink_jars(folder / "jars", (AVRO_JAR,))
    results: dict[str, list[Figures]] = {}
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(folder / "broker"))
        registry = stack.enter_context(EmbeddedRegistry(folder / "registry"))
        engine = SparkEngine(settings(jars))
        stack.callback(engine.stop)
        bench = Bench(broker, engine, file, arguments.lines, arguments.partitions)
        java = stack.enter_context(java_connect(folder, bench, registry.url.replace(API, "/apis/registry/v2")))
        bench.ignore(java.process.pid)
        for number in range(arguments.rounds + 1):
            for name, run in contenders(bench, registry, java).items():
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
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        compare(arguments, Path(folder))


if __name__ == "__main__":
    main()
