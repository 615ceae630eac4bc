"""Everything that the write of one batch needs from the worker and the task. Runs transforms in the worker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from fencepost.engine.column_types import ColumnTypes
from fencepost.engine.conversion import ROW
from fencepost.engine.error_handler import ErrorHandler, Sorted, StageRows
from fencepost.engine.errors import SparkDataError
from fencepost.engine.function_steps import only_functions
from fencepost.engine.grouping import RecordGroup
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.refused_records import Stage
from fencepost.engine.spark.arrow_plans import ArrowPlans
from fencepost.engine.spark.job_write import Changed
from fencepost.engine.spark.jobs import Cancelled, Jobs, check_cancelled, of_rows
from fencepost.engine.spark.transform import GroupPlans, refused_rows, transform_group
from fencepost.kafka.producer.record_producer import RecordProducer
from fencepost.transforms.base import DroppingTransformation

Transformed = tuple[list[pa.RecordBatch], ColumnTypes]
"""Transformed rows, and the types of their columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWrite:
    """The write of one batch: its `pipeline`, its handler of `errors`, and objects of the worker and the task."""

    session: Callable[[], SparkSession]
    jobs: Jobs
    plans: GroupPlans
    arrow_plans: ArrowPlans[Changed]
    producer: RecordProducer
    task: str
    cancelled: Cancelled
    errors: ErrorHandler
    pipeline: Pipeline

    def check(self) -> None:
        """Raise BatchCancelledError if the task was cancelled."""
        check_cancelled(self.task, self.cancelled)

    def running(self, session: SparkSession, mark: str | None = None) -> AbstractContextManager[None]:
        """Within this context, this thread's Spark jobs belong to the task. Raises the errors of `Jobs.running`."""
        return self.jobs.running(session, self.task, self.cancelled, mark)

    @property
    def only_functions(self) -> bool:
        """Whether the transforms can process rows without Spark."""
        return only_functions(self.pipeline)

    @property
    def may_multiply(self) -> bool:
        """Whether rows may be skipped, and a record may become several rows, which are skipped together."""
        return self.errors.tolerates and self.pipeline.may_multiply

    def stage_rows(self, group: RecordGroup) -> StageRows:
        """Return the rows of polled records for the error handler, which finds the rows that a transform refuses."""
        columns = group.columns
        return StageRows(
            Stage.TRANSFORMATION, self.pipeline.transform_names, group.topic, columns.num_rows,
            row=lambda position: columns[ROW][position].as_py(), place=self.pipeline.place_of,
        )  # fmt: skip

    def transformed(
        self,
        group: RecordGroup,
        rows: StageRows,
        complete: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda part: part,
    ) -> list[Transformed]:
        """Transform the rows of a group. `complete` adds missing columns first. Tolerated refused rows are left out."""
        # The session is started before any row is tried, so that no record is skipped because Spark cannot start.
        session = None if self.only_functions else self.session()

        def transform(start: int, stop: int) -> Transformed | Sorted[Transformed]:
            part = replace(group, columns=complete(group.columns.slice(start, stop - start)))
            try:
                return self._transformed(session, part)
            except SparkDataError:
                if session is None or not self.errors.tolerates or stop - start == 1:
                    raise
                found = self._sorted(session, part)
                if found is None:
                    raise
                return found

        passed, _ = self.errors.apply(rows, transform)
        # Only the first transform that drops records logs how many it drops. The number is counted in the untransformed
        # records, and a later transform may not get all of them.
        dropping = (step for step in self.pipeline.transforms if isinstance(step.transform, DroppingTransformation))
        first = next(dropping, None)
        if first is not None and isinstance(first.transform, DroppingTransformation) and first.predicate is None:
            first.transform.log_dropped(group.columns, f"Task {self.task}")
        return [part.result for part in passed]

    def _transformed(self, session: SparkSession | None, group: RecordGroup) -> Transformed:
        with of_rows(), nullcontext() if session is None else self.running(session):
            return transform_group(session, group, self.pipeline, self.plans)

    def _sorted(self, session: SparkSession, group: RecordGroup) -> Sorted[Transformed] | None:
        """Return the transformed and the refused rows of a group, None if only bisection can find the refused rows."""
        with self.running(session):
            found = refused_rows(session, group, self.pipeline)
        if not found:
            return None
        kept = np.delete(np.arange(group.columns.num_rows), [position for position, _ in found])
        left = replace(group, columns=group.columns.take(pa.array(kept)))
        return Sorted(self._transformed(session, left) if len(kept) else ([], group.types), found)
