"""Plans of transforms, kept for later batches with the same columns.

Spark takes much longer to plan a select than to evaluate it over a hundred rows. So the expressions that its optimizer
made are kept. Later batches go through them in the driver's JVM: Arrow, rows, Spark's interpreted projection, Arrow.

A kept plan is correct only if planning again would give the same one. So its key has everything that it depends on: the
session and its settings, the transforms, and the types of the columns. Transforms that depend on more are planned for
each batch (`planned_by_schema`).

Expressions have buffers and other state. So a plan has one user at a time, and is dropped after an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache, reduce
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from fencepost.engine.spark.arrow_rows import TIME_ZONE, may_use_files, rows_from_arrow, rows_to_arrow

P = TypeVar("P")

_CAPACITY: Final = 64
_LIMIT: Final = "spark.sql.execution.arrow.localRelationThreshold"
_PASSES: Final = "__fencepost_passes"


class _Use(Enum):
    """The use count of a key without a plan."""

    NEVER = auto()
    ONCE = auto()


class KnownPlans(Generic[P]):
    """Keeps the most recently used plans, by keys. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[Hashable, P | _Use | None] = {}

    @contextmanager
    def borrowed(self, key: Hashable, make: Callable[[], P | None]) -> Iterator[P | None]:
        """Lend a key's plan to the block exclusively. It is kept if the block ends without an exception.

        `make` is called when a key is used for the second time: a source whose columns always change uses most keys
        once. It returns None if no plan can be kept. The block gets None for a new key, and for one in use.
        """
        with self._lock:
            known = self._plans.pop(key, _Use.NEVER)
        plan = make() if known is _Use.ONCE else known
        yield None if isinstance(plan, _Use) else plan
        with self._lock:
            self._plans[key] = _Use.ONCE if isinstance(plan, _Use) else plan
            if len(self._plans) > _CAPACITY:
                del self._plans[next(iter(self._plans))]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPlan:
    """A selection from one table, as expressions that are evaluated over other rows. For one thread at a time.

    `given` and `result` are the columns before and after, for Arrow and as Java's StructType. `limit` is the number of
    bytes up to which Spark itself would evaluate the selection in the driver.
    """

    session: SparkSession
    projections: Sequence[Any]
    filters: bool
    limit: int
    given: pa.Schema
    given_java: Any
    result: pa.Schema
    result_java: Any

    @classmethod
    def of(cls, table: DataFrame, selection: DataFrame) -> LocalPlan | None:
        """Keep the plan of a selection from a table that Spark does not evaluate while it plans.

        None if the plan is more than projections of one filter. Raises Py4JError or TypeError if Spark's internals are
        not as expected.
        """
        session = selection.sparkSession
        evaluated = _projections(session, selection)
        if evaluated is None or not may_use_files(session):
            return None
        projections, filters = evaluated
        result, result_java = _arrow_schema(selection.schema), selection._jdf.schema()  # noqa: SLF001 - rows are the JVM's
        if filters:
            result, result_java = result.append(pa.field(_PASSES, pa.bool_())), result_java.add(_PASSES, "boolean")
        return cls(
            session=session,
            projections=projections,
            filters=filters,
            limit=int(str(session.conf.get(_LIMIT)).removesuffix("b")),
            given=_arrow_schema(table.schema),
            given_java=table._jdf.schema(),  # noqa: SLF001 - likewise
            result=result,
            result_java=result_java,
        )

    def takes(self, batch: pa.RecordBatch) -> bool:
        """Return whether the batch is small enough, and Spark can read its columns without a conversion."""
        return bool(batch.nbytes <= self.limit and batch.schema.types == self.given.types)

    def rows(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the selection from a batch.

        Raises Spark's error for a row that an expression refuses, even if the filter drops it.
        """
        _set_active(self.session)
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=self.given)
        given = rows_from_arrow(self.session, batch, self.given_java)
        try:
            selected = reduce(lambda rows, projection: rows.map(projection), self.projections, given)
            table = rows_to_arrow(self.session, selected, self.result_java, self.result)
        except Exception:
            # Counting consumes the remaining rows, and so frees their memory.
            with suppress(Py4JError, PySparkException):
                given.size()
            raise
        return table.filter(table[_PASSES]).drop_columns([_PASSES]) if self.filters else table


def _projections(session: SparkSession, selection: DataFrame) -> tuple[list[Any], bool] | None:
    """The projections of a plan, in their order, as functions of Scala from row to row.

    With a filter the last column shows whether a row passes: an iterator's filter would have to be a function of Scala,
    which Spark's conditions are not. None for any other plan.
    """
    plan = selection._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - pyspark shows no plan
    projects: list[Any] = []
    while plan.nodeName() == "Project":
        projects.insert(0, plan)
        plan = plan.child()
    passes, plan = (plan.condition(), plan.child()) if plan.nodeName() == "Filter" else (None, plan)
    if plan.nodeName() != "LogicalRDD":
        return None
    catalyst: Any = session._jvm.org.apache.spark.sql.catalyst.expressions  # type: ignore[union-attr] # noqa: SLF001 - likewise
    found, columns, boolean = [], plan.output(), None if passes is None else passes.dataType()
    for expressions in [project.projectList() for project in projects] or [columns]:
        every = expressions if passes is None else expressions.appended(passes)
        found.append(catalyst.InterpretedProjection(every, columns))
        columns = projects[len(found) - 1].output() if projects else columns
        passes = None if passes is None else catalyst.BoundReference(columns.size(), boolean, True)
    return found, passes is not None


def settings_hash(session: SparkSession) -> int:
    """A number that changes with the session's settings, on which plans depend."""
    return int(_settings(session).hashCode())


@lru_cache(maxsize=1)
def _settings(session: SparkSession) -> Any:
    return session._jsparkSession.sessionState().conf().settings()  # noqa: SLF001 - pyspark asks for single ones


@lru_cache(maxsize=1)
def _active_setter(session: SparkSession) -> Any:
    jvm: Any = session._jvm  # noqa: SLF001 - expressions look for the settings of the thread's session
    return jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession


def _set_active(session: SparkSession) -> None:
    _active_setter(session)(session._jsparkSession)  # noqa: SLF001 - see above


def _arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, error_on_duplicated_field_names_in_struct=True, timezone=TIME_ZONE)
