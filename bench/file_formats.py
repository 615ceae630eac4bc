"""FileSource's formats side by side: the same rows as CSV, JSON lines, Parquet, ORC and Avro, and compressed CSV; and flights.

    python bench/file_formats.py [--rounds 3] [--rows 5000000] [--flights]

A task's planning, and the reads of the worker or the executors, one after the other in one process, without Kafka and
without converters. The files are made for the run and are in the page cache. Shown is the CPU time a row (median and
range), and its ratio to the first format's. Avro and the resumes have a fifth of the rows. "flights" is typed CSV with the 19
columns of the demo's file, 92 bytes a row, and the same with all of them as strings: --flights is these alone.

A resume of a compressed file is a start from the offset before its last batch. Its time is given as it is, as a part of that
of reading the whole file, and for a GB of content: as it is if there is a restart point, else in proportion. Each codec is
there as its usual program writes it (gzip, zstd and lz4: one member or frame; xz: one stream; bzip2: blocks of 900 kB), and in
parts of 8 MB, one after the other.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import lzma
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from pyarrow import csv, orc, parquet

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.record import SourceBatch
from fencepost.cli.demo.demo import SCHEMA as FLIGHTS
from fencepost.connectors.files.discovery.shares import TASK_FILES
from fencepost.connectors.files.task import FileSourceTask

SCHEMA = "id BIGINT, name STRING, price DOUBLE, at TIMESTAMP"
AVRO = {
    "type": "record", "name": "Row", "fields": [
        {"name": "id", "type": "long"}, {"name": "name", "type": "string"}, {"name": "price", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}  # fmt: skip
TEXTS = {"format": "csv", "schema": SCHEMA}
FLIGHTS_AS_STRINGS = FLIGHTS.replace(" INT", " STRING")
PART_BYTES = 8_000_000


class Context:
    """The part of a worker's task context that the task uses here."""

    allowed_paths = ANYWHERE

    def __init__(self, offset: Any) -> None:
        self._offset = offset
        self.offset_reader = self

    def offsets(self, partitions: list[Any]) -> list[Any]:
        return [self._offset for _ in partitions]


def batches(path: Path, properties: dict[str, str], offset: Any = None) -> Iterator[tuple[int, Any]]:
    """Read a file to its end; yield the number of rows of each batch, and its offset."""
    task: Any = FileSourceTask()
    task.context = Context(offset)
    task.start({"files": str(path), "topic": "t", TASK_FILES: f'["{path}"]', **properties})
    while not task.at_end():
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        reader: Any = batch.reader
        yield sum(part.num_rows for split in batch.splits for part in reader.read(split)), batch.offsets[0][1]


def read(path: Path, properties: dict[str, str]) -> int:
    """Read a file to its end and return the number of rows."""
    return sum(rows for rows, _ in batches(path, properties))


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


def write_flights(folder: Path, rows: int) -> None:
    """Write rows like the demo's flights: numbers of one to four digits, few carriers and airports, and some NA."""
    with (folder / "flights.csv").open("w") as file:
        for number in range(rows):
            minutes, delay = number % 1440, "NA" if number % 40 == 0 else number % 90 - 20
            clock = minutes // 60 * 100 + minutes % 60
            file.write(
                f"2013,{number % 12 + 1},{number % 28 + 1},{clock},{clock},{delay},{clock},{clock},{delay},"
                f"{('UA', 'AA', 'B6', 'DL')[number % 4]},{number % 6000},N{number % 4000 + 10000},"
                f"{('EWR', 'LGA', 'JFK')[number % 3]},{('IAH', 'MIA', 'BQN', 'ATL', 'ORD')[number % 5]},"
                f"{number % 400 + 20},{number % 2500 + 80},{minutes // 60},{minutes % 60},"
                f"2013-{number % 12 + 1:02}-{number % 28 + 1:02}T{minutes // 60:02}:00:00Z\n"
            )


def write_tables(folder: Path, few: int) -> None:
    names = csv.ReadOptions(column_names=["id", "name", "price", "at"])
    types = csv.ConvertOptions(column_types={"at": pa.timestamp("us", "UTC")})
    table = csv.read_csv(folder / "rows.csv", read_options=names, convert_options=types)
    parquet.write_table(table, folder / "rows.parquet")
    orc.write_table(table, folder / "rows.orc")
    with (folder / "rows.avro").open("wb") as file:
        fastavro.writer(file, AVRO, table.slice(0, few).to_pylist(), codec="deflate")


def by_arrow(codec: str, text: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as out:
        out.write(text)
    return bytes(sink.getvalue())


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda text: gzip.compress(text, 6),
    "bzip2": bz2.compress,
    "xz": lambda text: lzma.compress(text, preset=1),
    "zstd": lambda text: by_arrow("zstd", text),
    "lz4": lambda text: by_arrow("lz4", text),
}


def write_compressed(folder: Path, few: int) -> tuple[dict[str, Path], int]:
    """Return the compressed files by title, and the size of their uncompressed content."""
    whole = (folder / "rows.csv").read_bytes()
    (folder / "rows.csv.gz").write_bytes(gzip.compress(whole, 6))
    text = b"".join(whole.splitlines(keepends=True)[:few])
    files = {}
    for codec, compress in COMPRESS.items():
        parts = [compress(text[at : at + PART_BYTES]) for at in range(0, len(text), PART_BYTES)]
        for title, data in ((codec, compress(text)), (f"{codec}, in parts", b"".join(parts))):
            files[title] = folder / f"few {title}"
            files[title].write_bytes(data)
    return files, len(text)


def resume(title: str, path: Path, size: int, rounds: int) -> str:
    """Return a line of text: the CPU time of a resume at the last batch of a file."""
    shares, seconds = [], []
    for _ in range(rounds):
        started = time.process_time()
        offsets = [offset for _, offset in batches(path, TEXTS)]
        between = time.process_time()
        assert sum(1 for _ in batches(path, TEXTS, offsets[-2])) == 1
        seconds.append(time.process_time() - between)
        shares.append(seconds[-1] / (between - started))
    taken = statistics.median(seconds)
    at_gb = taken if "restart" in offsets[-2] else taken * 1e9 / size
    return (
        f"resume at the end, {title:15}{taken * 1000:7.0f} ms, {statistics.median(shares):.2f} of reading it "
        f"({min(shares):.2f}-{max(shares):.2f}), at 1 GB {at_gb:.2f} s"
    )


def cpu_of(work: Callable[[], int], rounds: int) -> list[float]:
    """Return the CPU nanoseconds a row of each round; the first round is not counted."""
    work()
    found = []
    for _ in range(rounds):
        started = time.process_time()
        rows = work()
        found.append((time.process_time() - started) / rows * 1e9)
    return found


def compare(folder: Path, contenders: dict[str, tuple[str, dict[str, str]]], rounds: int) -> None:
    """Print the CPU time a row of each file, and its ratio to the first file's."""
    base = 0.0
    for title, (file, properties) in contenders.items():
        found = cpu_of(partial(read, folder / file, properties), rounds)
        base = base or statistics.median(found)
        print(
            f"{title:20}{statistics.median(found):8.0f} ns CPU a row ({min(found):.0f}-{max(found):.0f}), "
            f"{statistics.median(found) / base:.2f} times {next(iter(contenders))}",
            flush=True,
        )


def compare_formats(folder: Path, rows: int, rounds: int) -> None:
    few = rows // 5
    write_texts(folder, rows)
    write_tables(folder, few)
    compressed, size = write_compressed(folder, few)
    contenders = {
        "typed CSV": ("rows.csv", TEXTS),
        "typed CSV, gzip": ("rows.csv.gz", TEXTS),
        "typed JSON lines": ("rows.jsonl", {"format": "jsonl", "schema": SCHEMA}),
        "Parquet": ("rows.parquet", {"format": "parquet"}),
        "ORC": ("rows.orc", {"format": "orc"}),
        "Avro": ("rows.avro", {"format": "avro"}),
    }
    compare(folder, contenders, rounds)
    for title, path in compressed.items():
        print(resume(title, path, size, rounds), flush=True)


def compare_flights(folder: Path, rows: int, rounds: int) -> None:
    write_flights(folder, rows)
    contenders = {
        "flights, typed": ("flights.csv", {"format": "csv", "schema": FLIGHTS, "null.value": "NA"}),
        "flights, strings": ("flights.csv", {"format": "csv", "schema": FLIGHTS_AS_STRINGS}),
    }
    compare(folder, contenders, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--flights", action="store_true", help="the flights alone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if not arguments.flights:
            compare_formats(Path(name), arguments.rows, arguments.rounds)
        compare_flights(Path(name), arguments.rows, arguments.rounds)


if __name__ == "__main__":
    main()
