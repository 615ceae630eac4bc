"""Lets the converters decide how to write the rows of a DataFrame, whose topics a separate job finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.record import SourceBatch
from fencepost.api.schema_name import VERSION
from fencepost.engine.column_types import ColumnTypes, by_version, column_types
from fencepost.engine.conversion import require_topic
from fencepost.engine.errors import AllRowsRefusedError, RetriableJobError, SparkDataError
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.preparation import has_decisions, prepare_topics
from fencepost.engine.spark.transform import check_user_types, read_frame, transform_frame
from fencepost.engine.write_stage import SplitRows

Running = Callable[[], AbstractContextManager[None]]


def prepare_batch(session: SparkSession, batch: SourceBatch, pipeline: Pipeline, running: Running, mark: str) -> None:
    """Prepare the converters for the rows of a SourceBatch, whose jobs run in a context that `running` gives.

    Raises as `prepare_topics`, and the errors that `running` converts. Errors of the transforms are left to the write.
    """
    frame = batch.dataframe
    if batch.reader is not None:
        rows = SplitRows.of(batch.reader, batch.splits, pipeline)
        with running():
            frame = read_frame(session, replace(rows, runs=max(1, len(batch.splits))), pipeline, mark)
    if frame is not None:
        prepare_frame(frame, pipeline, running)


def prepare_frame(frame: DataFrame, pipeline: Pipeline, running: Running) -> None:
    """Prepare the converters for the rows of a DataFrame. Raises as `prepare_batch`."""
    if not has_decisions(pipeline):
        return
    with suppress(AllRowsRefusedError, SparkDataError, RetriableJobError):
        with running():
            check_user_types(frame, where=pipeline.given)
            if pipeline.transforms:
                frame, types = transform_frame(frame, pipeline)
            else:
                types = column_types(frame.schema, where=pipeline.given)
            versioned = list(_versioned(frame, types))
        for rows, kinds in versioned:
            with running():
                topics = _topics(rows, kinds, pipeline)
            prepare_topics(pipeline, topics, kinds)


def _versioned(frame: DataFrame, types: ColumnTypes) -> Iterator[tuple[DataFrame, ColumnTypes]]:
    """Yield the rows whose values' schemas have one version, with their types."""
    if VERSION not in frame.columns:
        yield frame, types
        return
    for batch in frame.select(VERSION).distinct().toArrow().to_batches():
        for row, kinds in by_version(batch, types):
            yield frame.where(F.col(VERSION).eqNullSafe(F.lit(row[VERSION][0].as_py()))), kinds


def _topics(frame: DataFrame, types: ColumnTypes, pipeline: Pipeline) -> list[str]:
    if not types.has_topic:
        return [require_topic(pipeline.default_topic)]
    named = [row["topic"] for row in frame.select("topic").distinct().collect()]
    topics = {pipeline.default_topic if topic is None else topic for topic in named}
    return sorted(topic for topic in topics if topic is not None)
