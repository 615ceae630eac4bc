"""Sessions and streaming queries for tests of the Spark sink; each file of a folder is a micro-batch."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fencepost.engine.engine import SparkEngine
from fencepost.spark import ExactlyOnce
from fencepost.spark.format.data_source import FencepostDataSource
from tests.support.checker import read_topic

_EPOCH = 1_700_000_000
STORAGE_TOPIC = "fencepost-sinks"


@contextmanager
def users_session(engine: SparkEngine) -> Iterator[SparkSession]:
    """Make an engine's session the calling thread's session, where Spark looks up data sources. Stops the engine.

    Spark cannot look up data sources with a Python at a path with a space, because it passes the path to a shell
    without quotes.
    """
    with users_thread(engine.session()) as session:
        if " " in sys.executable:
            session.dataSource.register(FencepostDataSource)
        yield session
    engine.stop()


@contextmanager
def users_thread(session: SparkSession) -> Iterator[SparkSession]:
    """Make a session the calling thread's session."""
    sessions = session._jvm.org.apache.spark.sql.classic.SparkSession
    sessions.setActiveSession(session._jsparkSession)
    yield session
    sessions.clearActiveSession()


@dataclass
class FileQuery:
    """A query over the text files of `folder / "input"`, each a micro-batch; its checkpoint is in `folder`.

    It writes by `function`, a function for foreachBatch, or by format("fencepost") with these options.
    """

    spark: SparkSession
    folder: Path
    function: Callable[[DataFrame, int], None] | Mapping[str, str]
    shape: Callable[[DataFrame], DataFrame] = lambda frame: frame
    output_mode: str = "append"
    checkpoint_name: str = "checkpoint"

    @property
    def checkpoint(self) -> Path:
        return self.folder / self.checkpoint_name

    def add(self, *values: str, name: str | None = None) -> None:
        """Add a file, whose lines are `values`."""
        (self.folder / "input").mkdir(exist_ok=True)
        staged = self.folder / "staged.txt"
        staged.write_text("".join(f"{value}\n" for value in values))
        number = len(list((self.folder / "input").iterdir()))
        # Spark takes the files in the order of their modification times.
        os.utime(staged, (_EPOCH + number, _EPOCH + number))
        staged.rename(self.folder / "input" / (name or f"{number:04}.txt"))

    def start(self, *, available_now: bool = True) -> StreamingQuery:
        frame = self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.folder / "input"))
        writer = self.shape(frame).writeStream.outputMode(self.output_mode)
        if callable(self.function):
            writer = writer.foreachBatch(self.function)
        else:
            writer = writer.format("fencepost").options(**self.function)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(availableNow=True) if available_now else writer).start()

    def run(self) -> None:
        """Run the query over all files. Raises the function's error, within a StreamingQueryException."""
        query = self.start()
        try:
            assert query.awaitTermination(500), "the query did not end"
        finally:
            query.stop()

    def refusal(self) -> str:
        """Run the query, and return the text of the error that ends it."""
        with pytest.raises(StreamingQueryException) as raised:
            self.run()
        return str(raised.value)

    def forget_commit(self, batch: int) -> None:
        """Make Spark repeat its last batch, as if the driver had died before the commit log was written."""
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def save(self) -> Path:
        """Copy the checkpoint."""
        copy = self.folder / "saved"
        shutil.copytree(self.checkpoint, copy)
        return copy

    def restore(self, copy: Path) -> None:
        """Restore a copy of the checkpoint."""
        shutil.rmtree(self.checkpoint)
        shutil.copytree(copy, self.checkpoint)


def progress_of(bootstrap_servers: str, sink: str, topic: str = STORAGE_TOPIC) -> list[dict[str, Any]]:
    """All committed progress records of a sink."""
    records = read_topic(bootstrap_servers, topic)
    return [json.loads(r.value or b"") for r in records if json.loads(r.key or b"") == {"sink": sink}]


def texts(bootstrap_servers: str, topic: str) -> list[str]:
    """The committed values of a topic, sorted."""
    return sorted((record.value or b"").decode() for record in read_topic(bootstrap_servers, topic))


def functions(*several: ExactlyOnce) -> Callable[[DataFrame, int], None]:
    """One function for foreachBatch that calls several functions."""

    def call(frame: DataFrame, batch: int) -> None:
        for function in several:
            function(frame, batch)

    return call


def numbered(first: int, stop: int) -> Iterable[str]:
    return [str(number) for number in range(first, stop)]
