"""Lets the converters decide how to write the rows of a DataFrame. A separate job finds the topics of the rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from fencepost.api.record import SourceBatch
from fencepost.api.schema_name import IDENTITY
from fencepost.engine.column_types import ColumnTypes, by_identity, column_types
from fencepost.engine.conversion import require_topic
from fencepost.engine.errors import AllRowsRefusedError, RetriableJobError, SparkDataError
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.preparation import has_decisions, prepare_topics, topics_in
from fencepost.engine.spark.transform import check_user_types, read_frame, transform_frame
from fencepost.engine.write_stage import SplitRows

Running = Callable[[], AbstractContextManager[None]]


def prepare_batch(session: SparkSession, batch: SourceBatch, pipeline: Pipeline, running: Running, mark: str) -> None:
    """Prepare the converters for the rows of a SourceBatch. The Spark jobs run in a context from `running`.

    Raises the errors of `prepare_topics`, and the errors that `running` converts. Errors of the transforms are not
    raised here, but by the write.
    """
    frame = batch.dataframe
    if batch.reader is not None:
        rows = SplitRows.of(batch.reader, batch.splits, pipeline)
        with running():
            frame = read_frame(session, replace(rows, runs=max(1, len(batch.splits))), pipeline, mark)
    if frame is not None:
        prepare_frame(frame, pipeline, running)


def prepare_frame(frame: DataFrame, pipeline: Pipeline, running: Running) -> None:
    """Prepare the converters for the rows of a DataFrame. Raises the same errors as `prepare_batch`."""
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
        for topic, kinds in topics:
            prepare_topics(pipeline, [topic], kinds)


def _topics(frame: DataFrame, types: ColumnTypes, pipeline: Pipeline) -> list[tuple[str, ColumnTypes]]:
    """The topics of the rows, each with the types of its rows, once for each name and version of a schema."""
    columns = [name for name in ("topic", IDENTITY) if name in frame.columns]
    if not columns:
        return [(require_topic(pipeline.default_topic), types)]
    found = frame.select(*columns).distinct().sort(*columns).toArrow().to_batches()
    parts = [part for batch in found for part in by_identity(batch, types)]
    if not types.has_topic:
        return [(require_topic(pipeline.default_topic), kinds) for _, kinds in parts]
    return [(topic, kinds) for rows, kinds in parts for topic in topics_in([rows], pipeline.default_topic)]
