"""A driver that tests kill: `python -m tests.support.spark_sink_app SERVERS TOPIC FOLDER FILES`.

It runs a query over FOLDER/input until as many files as FILES were written, one a micro-batch. A row "wait" makes the task
that reads it create FOLDER/waiting, and wait for FOLDER/go.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from fencepost.engine.engine import SparkEngine
from fencepost.spark import exactly_once
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
    servers, topic, folder, files = sys.argv[1:5]
    waiting = Waiting(folder)

    def shape(frame: DataFrame) -> DataFrame:
        # A stateful query: Spark checks that a repeated batch is executed.
        return frame.dropDuplicates(["value"]).mapInArrow(waiting, "value STRING")

    engine = SparkEngine(_SETTINGS)
    options = {"bootstrap.servers": servers, "batch.size": 10_000, "max.block.ms": 20_000}
    query = FileQuery(engine.session(), Path(folder), exactly_once(topic=topic, name=topic, **options), shape)
    running = query.start(available_now=False)
    # Another driver may write to the checkpoint, so only what this one has done counts.
    while running.isActive and (running.lastProgress is None or running.lastProgress["batchId"] < int(files) - 1):
        time.sleep(0.05)
    failure = running.exception()
    running.stop()
    engine.stop()
    if failure is not None:
        sys.exit(f"FAILED {failure}")


if __name__ == "__main__":
    main()
