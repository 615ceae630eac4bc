"""FileSource's formats side by side: the same rows as CSV, JSON lines, Parquet, ORC and Avro, and compressed CSV.

    python bench/file_formats.py [--rounds 3] [--rows 5000000]

What a task plans, and what the worker or the executors read, one after the other in one process, without Kafka and without
converters. The files are made for the run and are in the page cache. Shown is the CPU time a row (median and range), and
how many times that of typed CSV it is. Avro and the resumes have a fifth of the rows.

A resume of a compressed file is a start at its last row. Its time is given as a part of that of reading the whole file.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import lzma
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from pyarrow import csv, orc, parquet

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.record import SourceBatch
from fencepost.connectors.file_config import TASK_FILES
from fencepost.connectors.file_task import FileSourceTask

SCHEMA = "id BIGINT, name STRING, price DOUBLE, at TIMESTAMP"
AVRO = {
    "type": "record", "name": "Row", "fields": [
        {"name": "id", "type": "long"}, {"name": "name", "type": "string"}, {"name": "price", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}  # fmt: skip
TEXTS = {"format": "csv", "schema": SCHEMA}


class Context:
    """What a task needs of a worker."""

    allowed_paths = ANYWHERE

    def __init__(self, position: int | None) -> None:
        self._position = position
        self.offset_reader = self

    def offsets(self, partitions: list[Any]) -> list[Any]:
        return [None if self._position is None else {"position": self._position} for _ in partitions]


def read(path: Path, properties: dict[str, str], position: int | None = None) -> int:
    """Read a file to its end and return the number of rows."""
    task: Any = FileSourceTask()
    task.context = Context(position)
    task.start({"files": str(path), "topic": "t", TASK_FILES: f'["{path}"]', **properties})
    rows = 0
    while not task.at_end():
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        reader: Any = batch.reader
        rows += sum(part.num_rows for split in batch.splits for part in reader.read(split))
    return rows


def write_texts(folder: Path, rows: int) -> None:
    with (folder / "rows.csv").open("w") as file:
        file.writelines(
            f'{number},"name, of {number}",{number / 4},2013-01-01T10:00:{number % 60:02}Z\n' for number in range(rows)
        )
    with (folder / "rows.jsonl").open("w") as file:
        file.writelines(
            f'{{"id": {number}, "name": "name, of {number}", "price": {number / 4}, '
            f'"at": "2013-01-01T10:00:{number % 60:02}Z"}}\n'
            for number in range(rows)
        )


def write_tables(folder: Path, few: int) -> None:
    names = csv.ReadOptions(column_names=["id", "name", "price", "at"])
    types = csv.ConvertOptions(column_types={"at": pa.timestamp("us", "UTC")})
    table = csv.read_csv(folder / "rows.csv", read_options=names, convert_options=types)
    parquet.write_table(table, folder / "rows.parquet")
    orc.write_table(table, folder / "rows.orc")
    with (folder / "rows.avro").open("wb") as file:
        fastavro.writer(file, AVRO, table.slice(0, few).to_pylist(), codec="deflate")


def write_compressed(folder: Path, few: int) -> tuple[dict[str, Path], int]:
    """Return the compressed files by codec, and the position of the last row in their content."""
    whole = (folder / "rows.csv").read_bytes()
    (folder / "rows.csv.gz").write_bytes(gzip.compress(whole, 6))
    lines = whole.split(b"\n", few)[:few]
    text = b"\n".join(lines) + b"\n"
    data = {"gzip": gzip.compress(text, 6), "bz2": bz2.compress(text), "xz": lzma.compress(text, preset=1)}
    for codec in ("zstd", "lz4"):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as out:
            out.write(text)
        data[codec] = sink.getvalue().to_pybytes()
    files = {}
    for codec, compressed in data.items():
        files[codec] = folder / f"few.{codec}"
        files[codec].write_bytes(compressed)
    return files, len(text) - len(lines[-1]) - 1


def cpu_of(work: Callable[[], int], rounds: int) -> list[float]:
    """Return the nanoseconds of CPU a row, of each round after a first one."""
    work()
    found = []
    for _ in range(rounds):
        started = time.process_time()
        rows = work()
        found.append((time.process_time() - started) / rows * 1e9)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=5_000_000)
    arguments = parser.parse_args()
    few = arguments.rows // 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_texts(folder, arguments.rows)
        write_tables(folder, few)
        compressed, last_row = write_compressed(folder, few)
        contenders = {
            "typed CSV": ("rows.csv", TEXTS),
            "typed CSV, gzip": ("rows.csv.gz", TEXTS),
            "typed JSON lines": ("rows.jsonl", {"format": "jsonl", "schema": SCHEMA}),
            "Parquet": ("rows.parquet", {"format": "parquet"}),
            "ORC": ("rows.orc", {"format": "orc"}),
            "Avro": ("rows.avro", {"format": "avro"}),
        }
        base = 0.0
        for title, (file, properties) in contenders.items():
            found = cpu_of(lambda file=file, properties=properties: read(folder / file, properties), arguments.rounds)
            base = base or statistics.median(found)
            print(
                f"{title:20}{statistics.median(found):8.0f} ns CPU a row ({min(found):.0f}-{max(found):.0f}), "
                f"{statistics.median(found) / base:.2f} times typed CSV",
                flush=True,
            )
        for codec, path in compressed.items():
            parts = []
            for _ in range(arguments.rounds):
                started = time.process_time()
                read(path, TEXTS)
                between = time.process_time()
                assert read(path, TEXTS, last_row) == 1
                parts.append((time.process_time() - between) / (between - started))
            print(
                f"resume at the end, {codec:6}{statistics.median(parts):6.2f} of reading it ({min(parts):.2f}-{max(parts):.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
