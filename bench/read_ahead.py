"""Reading ahead on a thread against reading on the thread that writes, in turn, in a worker without Spark.

    python bench/read_ahead.py [--rounds 5] [--rows 1000000]

The same code reads ahead in executors. "store" is the file of lines from a reader that waits 10 ms for each MiB, as for an
object store. Shown are the ratios of its rate and of its CPU time to plain reading: the median of the rounds, and their
range. The first round is thrown away.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from fencepost.api.plugin import Converter
from fencepost.api.record import ArrowReader, SourceBatch
from fencepost.connectors.files.discovery.shares import TASK_FILES
from fencepost.connectors.files.task import FileSourceTask
from fencepost.converters import JsonConverter, SimpleHeaderConverter, StringConverter
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine import write_stage
from fencepost.engine.engine import SparkEngine
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.read_ahead import read_ahead
from fencepost.engine.source_write import SMALL_BATCH
from fencepost.engine.topic_gate import TopicGate
from file_formats import Context
from file_to_kafka import Bench, make_file, spread

_BLOCK_SECONDS = 0.010


@dataclass(frozen=True)
class WaitingReader:
    """A reader that waits before each block."""

    reader: ArrowReader
    schema: str

    def read(self, split: Any) -> Iterator[pa.RecordBatch]:
        for batch in self.reader.read(split):
            time.sleep(_BLOCK_SECONDS)
            yield batch


@dataclass(frozen=True)
class Case:
    """Batches to write, with the converter of their values."""

    batches: Sequence[SourceBatch]
    converter: Converter


def planned(file: Path, properties: dict[str, str]) -> list[SourceBatch]:
    """Return the batches of a file. The worker takes them for small ones, so it does not start Spark."""
    task: Any = FileSourceTask()
    task.context = Context(None)
    task.start({"files": str(file), "topic": "t", TASK_FILES: f'["{file}"]', **properties})
    batches = []
    while not task.at_end():
        batch = task.poll()
        for split in batch.splits:
            for _ in batch.reader.read(split):
                pass
        batches.append(replace(batch, bytes=SMALL_BATCH, topic=None))
    return batches


def cases(folder: Path, rows: int) -> dict[str, Case]:
    text, json = StringConverter(), JsonConverter()
    text.configure({}, is_key=False)
    json.configure({"schemas.enable": "false"}, is_key=False)
    lines = make_file(folder, rows)
    table = folder / "rows.csv"
    with table.open("w") as out:
        out.writelines(f"{number},name {number},{number / 7:.4f},2026-01-01 00:00:00\n" for number in range(rows))
    packed = folder / "lines.txt.gz"
    packed.write_bytes(gzip.compress(lines.read_bytes(), 1))
    csv = {"format": "csv", "header": "false", "schema": "id BIGINT, name STRING, price DOUBLE, at TIMESTAMP"}
    plain = planned(lines, {"format": "text"})
    waiting = [
        replace(batch, reader=WaitingReader(batch.reader, batch.reader.schema)) for batch in plain if batch.reader
    ]
    return {
        "lines": Case(plain, text),
        "csv to JSON": Case(planned(table, csv), json),
        "gzip": Case(planned(packed, {"format": "text"}), text),
        "store": Case(waiting, text),
    }


def run(bench: Bench, case: Case, topic: str) -> None:
    key, header = StringConverter(), SimpleHeaderConverter()
    key.configure({}, is_key=True)
    header.configure({})
    written = 0
    for batch in case.batches:
        bench.producer.begin_transaction()
        written += bench.engine.write(
            batch,
            Pipeline((), key, case.converter, header, topic),
            bench.producer,
            task="bench",
            cancelled=threading.Event(),
            topic_gate=TopicGate(None),
        ).written
        bench.producer.commit_transaction()
    assert written == bench.lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedBroker(Path(name) / "broker") as broker:
        folder = Path(name)
        bench = Bench(broker, SparkEngine({}), folder, arguments.rows, 4)
        ratios: dict[str, list[tuple[float, float]]] = {}
        found = cases(folder, arguments.rows)
        for number in range(arguments.rounds + 1):
            for title, case in found.items():
                figures = {}
                for ahead in (True, False) if number % 2 else (False, True):
                    vars(write_stage)["read_ahead"] = read_ahead if ahead else iter
                    with bench.topic() as topic:
                        figures[ahead] = bench.timed(partial(run, bench, case, topic))
                rate, cpu = (getattr(figures[True], of) / getattr(figures[False], of) for of in ("rate", "cpu"))
                print(f"round {number} {title:12} rate x {rate:.2f}  CPU x {cpu:.2f}  {figures}", flush=True)
                if number:
                    ratios.setdefault(title, []).append((rate, cpu))
    print(f"\n{'':14}{'rate x  min, median, max':>26}{'CPU x  min, median, max':>26}")
    for title, pairs in ratios.items():
        rates, cpus = ([pair[part] for pair in pairs] for part in (0, 1))
        print(f"{title:14}{spread(rates):>26}{spread(cpus):>26}   ({len(found[title].batches)} batches)")


if __name__ == "__main__":
    main()
