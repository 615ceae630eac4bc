"""Reading files alone, without Kafka: lines and typed rows into Arrow batches, in one process.

    python bench/file_reader.py [--rounds 5] [--records 1000000]

The files are made for the run and are in the page cache. Shown are the median and the range over the rounds, in
nanoseconds of CPU a record and in records/s. The loop that many connectors are made of, a Python record for each line,
is there for comparison.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.ddl import parse_columns
from fencepost.api.record import ArrowReader, SourceRecord
from fencepost.connectors.files.content.csv_quotes import Quoting
from fencepost.connectors.files.content.growing import SPLIT_BYTES
from fencepost.connectors.files.content.ranges import FileRange, open_file, scan_records, split_lines
from fencepost.connectors.files.formats.csv_reader import CsvReader
from fencepost.connectors.files.formats.jsonl_reader import JsonLinesReader
from fencepost.connectors.files.formats.line_reader import LineReader

COLUMNS = parse_columns("id BIGINT, name STRING, price DOUBLE, at TIMESTAMP")


def write_lines(path: Path, records: int) -> None:
    lines = np.random.default_rng(1).integers(ord("a"), ord("z"), (records, 100), dtype=np.uint8)
    lines[:, 99] = ord("\n")
    lines.tofile(path)


def write_csv(path: Path, records: int) -> None:
    with path.open("w") as file:
        file.writelines(
            f'{number},"name, of {number}",{number / 4},2013-01-01T10:00:{number % 60:02}Z\n'
            for number in range(records)
        )


def write_jsonl(path: Path, records: int) -> None:
    with path.open("w") as file:
        file.writelines(
            f'{{"id": {number}, "name": "n{number}", "price": {number / 4}, "at": "2013-01-01T10:00:00Z"}}\n'
            for number in range(records)
        )


def read_splits(path: Path, reader: ArrowReader, *, quoted: bool) -> int:
    """Read the splits that a task plans, one after the other, as executors do."""
    size = path.stat().st_size
    part = FileRange(str(path), 0, size)
    with open_file(str(path), ANYWHERE) as file:
        if quoted:
            splits = scan_records(file, part, size, quoting=Quoting(), split_bytes=SPLIT_BYTES)
        else:
            splits = split_lines(file, part, SPLIT_BYTES)
    return sum(batch.num_rows for split in splits for batch in reader.read(split))


def read_records(path: Path) -> int:
    """Make a Python object for each line."""
    count, position = 0, 0
    with path.open("rb") as file:
        for line in file:
            position += len(line)
            text = line.decode().rstrip("\n")
            SourceRecord({"filename": str(path)}, {"position": position}, "topic", text, value_schema="STRING")
            count += 1
    return count


def measure(read: Callable[[], int], rounds: int) -> str:
    cpu, rate = [], []
    read()
    for _ in range(rounds):
        started, cpu_started = time.perf_counter(), time.process_time()
        records = read()
        rate.append(records / (time.perf_counter() - started))
        cpu.append((time.process_time() - cpu_started) / records * 1e9)
    return (
        f"{statistics.median(cpu):8.0f} ns CPU a record ({min(cpu):.0f} to {max(cpu):.0f}), "
        f"{statistics.median(rate) / 1e6:6.2f} M records/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines, rows, objects = Path(folder, "lines.txt"), Path(folder, "rows.csv"), Path(folder, "rows.jsonl")
        write_lines(lines, arguments.records)
        write_csv(rows, arguments.records)
        write_jsonl(objects, arguments.records)
        contenders: dict[str, Callable[[], int]] = {
            "lines of 100 bytes": lambda: read_splits(lines, LineReader(), quoted=False),
            "typed CSV, 4 columns": lambda: read_splits(
                rows, CsvReader(COLUMNS, file_columns=tuple(COLUMNS.names)), quoted=True
            ),
            "typed JSON lines, 4 columns": lambda: read_splits(objects, JsonLinesReader(COLUMNS), quoted=False),
            "a Python record for each line": lambda: read_records(lines),
        }
        for name, read in contenders.items():
            print(f"{name:30}{measure(read, arguments.rounds)}", flush=True)


if __name__ == "__main__":
    main()
