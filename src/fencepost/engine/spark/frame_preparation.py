"""Lets the converters decide how to write the rows of a DataFrame, whose topics a separate job finds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from fencepost.api.record import SourceBatch
from fencepost.engine.column_types import ColumnTypes, column_types
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
            topics = _topics(frame, types, pipeline)
        prepare_topics(pipeline, topics, types)


def _topics(frame: DataFrame, types: ColumnTypes, pipeline: Pipeline) -> list[str]:
    if not types.has_topic:
        return [require_topic(pipeline.default_topic)]
    named = [row["topic"] for row in frame.select("topic").distinct().collect()]
    topics = {pipeline.default_topic if topic is None else topic for topic in named}
    return sorted(topic for topic in topics if topic is not None)
