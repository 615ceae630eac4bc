"""CPU of the stages that take the rows of a CSV file to record batches, in one process, without Spark and Kafka.

The file is that of transforms.py. Nanoseconds a row, of all threads: the median of the rounds, with the least and the greatest.

Run: .venv/bin/python bench/file_stages.py --rounds 5 --rows 400000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from fencepost.api.ddl import parse_columns
from fencepost.connectors.files.content.ranges import FileRange
from fencepost.connectors.files.formats.csv_reader import CsvReader
from fencepost.converters import JsonConverter, SimpleHeaderConverter, StringConverter
from fencepost.engine.conversion import Converted, convert
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.write_stage import reader_types
from fencepost.kafka.records import record_batch
from fencepost.kafka.records.batch_cuts import even_cuts
from fencepost.kafka.records.columns import Records
from fencepost.kafka.records.compression import Compression
from transforms import COLUMNS, shown, write_file

BATCH_BYTES = 1 << 20
T = TypeVar("T")


def encoded(records: Records) -> None:
    for start, count in even_cuts(len(records), record_batch.estimated_bytes(records), BATCH_BYTES, first=False):
        record_batch.encode(
            records.slice(start, count),
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
            compression=Compression.NONE,
            now_ms=0,
        )


def run(file: Path, pipeline: Pipeline) -> dict[str, float]:
    """CPU seconds of each stage."""
    schema = parse_columns(COLUMNS)
    reader = CsvReader(schema, file_columns=tuple(schema.names))
    types, errors = reader_types(reader), ErrorHandler(pipeline.errors)
    spent: defaultdict[str, float] = defaultdict(float)

    def timed(stage: str, call: Callable[[], T]) -> T:
        started = time.process_time()
        result = call()
        spent[stage] += time.process_time() - started
        return result

    batches = reader.read(FileRange(str(file), 0, file.stat().st_size))
    while (batch := timed("read and parse", lambda: next(batches, None))) is not None:
        made: list[Converted] = timed("JSON", partial(list, convert(batch, types, pipeline, errors)))
        for converted in made:
            timed("record batches", partial(encoded, converted.records))
    return spent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=400_000)
    arguments = parser.parse_args()
    key, value, header = StringConverter(), JsonConverter(), SimpleHeaderConverter()
    key.configure({}, is_key=True)
    value.configure({"schemas.enable": "false"}, is_key=False)
    header.configure({})
    pipeline = Pipeline((), key, value, header, "stages")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "orders.csv"
        write_file(file, arguments.rows)
        rounds = [run(file, pipeline) for _ in range(arguments.rounds + 1)][1:]
    for stage in rounds[0]:
        print(f"{stage}: {shown([spent[stage] * 1e9 / arguments.rows for spent in rounds])} ns a row")


if __name__ == "__main__":
    main()
