"""A driver that tests kill: `python -m tests.support.spark_sink_app SERVERS TOPIC FOLDER FILES MODE`.

It writes FILES files of FOLDER/input: in the mode "query" by a streaming query, one a micro-batch, in the mode "runs" by
write_kafka, one a run, and in the modes "format query" and "format runs" the same by format("fencepost"). A row
"wait", or "wait 7", makes the task that reads it create FOLDER/waiting, or "FOLDER/waiting 7", and wait for FOLDER/go, or
"FOLDER/go 7".
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from fencepost.engine.engine import SparkEngine
from fencepost.spark import exactly_once, write_kafka
from tests.support.spark_queries import FileQuery, users_session

WAIT = "wait"
_SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}


class Waiting:
    """Makes the task that reads a row with the prefix WAIT wait."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        folder = Path(self._folder)
        for batch in batches:
            for row in batch["value"].to_pylist():
                if row.startswith(WAIT):
                    which = row.removeprefix(WAIT)
                    (folder / f"waiting{which}").touch()
                    while not (folder / f"go{which}").exists():
                        time.sleep(0.02)
            yield batch


def main() -> None:
    servers, topic, name, files, mode = sys.argv[1:6]
    folder, options = Path(name), {"bootstrap.servers": servers, "batch.size": "10000", "max.block.ms": "20000"}
    options |= {"topic": topic, "name": topic}
    with users_session(SparkEngine(_SETTINGS)) as session:
        match mode:
            case "query":
                failure = _run_query(FileQuery(session, folder, exactly_once(**options)), int(files))
            case "format query":
                failure = _run_query(FileQuery(session, folder, options), int(files))
            case _:
                failure = None
                for number in range(int(files)):
                    write_run(session, folder, number, options, run=str(number), by_format=mode == "format runs")
    if failure is not None:
        sys.exit(f"FAILED {failure}")


def make_query(query: FileQuery) -> FileQuery:
    """The same as a stateful query, for which Spark checks that a repeated batch is executed, with a waiting step."""
    waiting = Waiting(str(query.folder))

    def shape(frame: DataFrame) -> DataFrame:
        return frame.dropDuplicates(["value"]).mapInArrow(waiting, "value STRING")

    return replace(query, shape=shape)


def _run_query(query: FileQuery, files: int) -> Exception | None:
    running = make_query(query).start(available_now=False)
    # Another driver may write to the checkpoint, so only this driver's own batches count.
    while running.isActive and (running.lastProgress is None or running.lastProgress["batchId"] < files - 1):
        time.sleep(0.05)
    failure = running.exception()
    running.stop()
    return failure


def write_run(
    session: SparkSession, folder: Path, number: int, options: dict[str, str], *, run: str, by_format: bool
) -> None:
    """Write a file as a run."""
    rows = session.read.text(str(folder / "input" / f"{number:04}.txt"))
    frame = rows.mapInArrow(Waiting(str(folder)), "value STRING")
    if by_format:
        frame.write.format("fencepost").options(run=run, **options).mode("append").save()
    else:
        write_kafka(frame, run=run, **options)


if __name__ == "__main__":
    main()
