"""A driver that tests kill: `python -m tests.support.spark_sink_app SERVERS TOPIC FOLDER FILES MODE`.

It writes FILES files of FOLDER/input: in the mode "query" by a streaming query, one a micro-batch, in the mode "runs" by
write_kafka, one a run. A row "wait" makes the task that reads it create FOLDER/waiting, and wait for FOLDER/go.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from fencepost.engine.engine import SparkEngine
from fencepost.spark import exactly_once, write_kafka
from tests.support.spark_queries import FileQuery

WAIT = "wait"
_SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}


class Waiting:
    """Holds up the task that reads the row WAIT."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        folder = Path(self._folder)
        for batch in batches:
            if WAIT in batch["value"].to_pylist():
                (folder / "waiting").touch()
                while not (folder / "go").exists():
                    time.sleep(0.02)
            yield batch


def main() -> None:
    servers, topic, name, files, mode = sys.argv[1:6]
    folder, options = Path(name), {"bootstrap.servers": servers, "batch.size": 10_000, "max.block.ms": 20_000}
    engine = SparkEngine(_SETTINGS)
    write = {"query": _run_query, "runs": _write_runs}[mode]
    failure = write(engine.session(), folder, int(files), {"topic": topic, "name": topic, **options})
    engine.stop()
    if failure is not None:
        sys.exit(f"FAILED {failure}")


def _run_query(session: SparkSession, folder: Path, files: int, options: dict[str, Any]) -> Exception | None:
    waiting = Waiting(str(folder))

    def shape(frame: DataFrame) -> DataFrame:
        # A stateful query: Spark checks that a repeated batch is executed.
        return frame.dropDuplicates(["value"]).mapInArrow(waiting, "value STRING")

    running = FileQuery(session, folder, exactly_once(**options), shape).start(available_now=False)
    # Another driver may write to the checkpoint, so only what this one has done counts.
    while running.isActive and (running.lastProgress is None or running.lastProgress["batchId"] < files - 1):
        time.sleep(0.05)
    failure = running.exception()
    running.stop()
    return failure


def _write_runs(session: SparkSession, folder: Path, files: int, options: dict[str, Any]) -> None:
    for number in range(files):
        frame = session.read.text(str(folder / "input" / f"{number:04}.txt"))
        write_kafka(frame.mapInArrow(Waiting(str(folder)), "value STRING"), run=str(number), **options)


if __name__ == "__main__":
    main()
