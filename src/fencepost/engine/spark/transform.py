"""Runs transforms on Spark's DataFrames: converts batches to a DataFrame, and the DataFrame back to records."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.api.errors import ConfigError, DataError, FencepostError, PluginError, RetriableError
from fencepost.api.schema_name import IDENTITY, NamedStruct
from fencepost.config.error_handling import ErrorHandling
from fencepost.engine.column_types import COLUMNS, ColumnTypes, column_types
from fencepost.engine.conversion import ROW, RawHeaders, needs_raw_headers
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.errors import AllRowsRefusedError, RetriableJobError
from fencepost.engine.function_steps import apply_functions, finished, segments
from fencepost.engine.grouping import TEXT_HEADERS, RecordGroup
from fencepost.engine.job_failure import JobFailure
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.preparation import prepare_headers
from fencepost.engine.reports import CarriedFailureError
from fencepost.engine.spark.arrow_rows import collected, frame_from_arrow
from fencepost.engine.spark.known_plans import KnownPlans, LocalPlan, settings_hash
from fencepost.engine.spark.local_rows import local_rows
from fencepost.engine.spark.row_check import RowCheck
from fencepost.engine.write_stage import SplitRows, reader_schema
from fencepost.transforms.chain import Step, all_planned_by_schema, apply_chain
from fencepost.transforms.timestamp_converter import utc_millis

_log: Final = logging.getLogger(__name__)

_ABSENT: Final = {
    "topic": "STRING", "partition": "INT", "key": "VOID", "timestamp": "BIGINT", "headers": "ARRAY<STRUCT<key: STRING, value: STRING>>",
}  # fmt: skip
_LINEAR_ALGEBRA: Final = {
    f"pyspark.{package}.linalg.{name}" for package in ("ml", "mllib") for name in ("VectorUDT", "MatrixUDT")
}
_AS_JSON: Final = "to_json({0}, map('ignoreNullFields', 'false')) AS {0}"
_STRUCTURED: Final = (t.StructType, t.ArrayType, t.MapType)


@dataclass(frozen=True, slots=True)
class _Selection:
    """The columns that are selected from a group's transformed records. The `structured` columns are JSON texts."""

    frame: DataFrame
    types: ColumnTypes
    structured: Sequence[str]

    def batches(self, table: pa.Table) -> list[pa.RecordBatch]:
        """The rows of the selection, as Arrow batches for the converters."""
        for name in self.structured:
            texts = [chunk.cast(pa.string()) for chunk in table[name].chunks]
            chunks = [pa.ExtensionArray.from_storage(pa.json_(), chunk) for chunk in texts]
            table = table.set_column(table.column_names.index(name), name, pa.chunked_array(chunks, pa.json_()))
        batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
        return batches


GroupPlans = KnownPlans[tuple[LocalPlan, _Selection]]
"""Plans of transforms for groups of polled records."""


def transform_group(
    session: SparkSession | None, group: RecordGroup, pipeline: Pipeline, plans: GroupPlans
) -> tuple[list[pa.RecordBatch], ColumnTypes]:
    """Apply the transforms to polled records: from Arrow to Catalyst and back.

    Rows that the transforms drop are missing in the result.

    Python functions are called here. `session` is None for a chain that consists only of functions. Raises
    AllRowsRefusedError if the transforms refuse the columns, whatever the rows are, and the errors that Spark and
    functions raise for a row.
    """
    parts = list(segments(pipeline.transforms))
    group = replace(group, columns=_all_columns(group))
    for number, (functions, steps) in enumerate(parts):
        if functions:
            group = apply_functions(group, steps)
            continue
        final = number == len(parts) - 1
        if session is None:
            raise ValueError("Only a chain of Python functions has no session")
        batches, types = _by_catalyst(session, group, steps, plans, final=final)
        if final:
            return batches, types
        if not batches:
            return [], types
        (columns,) = batches
        group = replace(group, columns=columns, types=replace(types, has_headers=group.types.has_headers))
    return finished(group)


def refused_rows(session: SparkSession, group: RecordGroup, pipeline: Pipeline) -> list[tuple[int, Exception]] | None:
    """Return the positions of the polled records that the transforms refuse, in order, each with its error.

    The result is None if one pass over the records cannot find the refused ones, so that bisection is needed.
    """
    chain = tuple(pipeline.transforms)
    if not all_planned_by_schema(chain):
        return None
    given = replace(group, columns=_all_columns(group))
    try:
        table = session.createDataFrame(session.sparkContext.emptyRDD(), _frame_schema(given.columns, group.types))
        check = RowCheck.of(_selection(table, given, chain, final=True).frame, table)
        return None if check is None else check.refused(given.columns)
    except Exception:  # noqa: BLE001 - whatever it is
        # Returning None leads to bisection, which reports the error.
        _log.debug("The records of topic %s could not be checked in one pass", group.topic, exc_info=True)
        return None


def _by_catalyst(
    session: SparkSession, group: RecordGroup, steps: tuple[Step, ...], plans: GroupPlans, *, final: bool
) -> tuple[list[pa.RecordBatch], ColumnTypes]:
    """Apply transforms with Spark. If they are `final`, the result has the columns that converters take."""
    if all_planned_by_schema(steps):
        transformed = _by_known_plan(session, group, steps, plans, final=final)
        if transformed is not None:
            return transformed
    given = group.columns
    frame = frame_from_arrow(session, given, _frame_schema(given, group.types))
    selection = _selection(frame, group, steps, final=final)
    table = local_rows(selection.frame)
    return selection.batches(collected(selection.frame) if table is None else table), selection.types


def _by_known_plan(
    session: SparkSession, group: RecordGroup, steps: tuple[Step, ...], plans: GroupPlans, *, final: bool
) -> tuple[list[pa.RecordBatch], ColumnTypes] | None:
    """Apply the transforms with the plan of an earlier group; None if no plan can be used. Never raises."""
    given = group.columns

    def make() -> tuple[LocalPlan, _Selection] | None:
        # This is an empty table, but Spark does not know that it is empty.
        table = session.createDataFrame(session.sparkContext.emptyRDD(), _frame_schema(given, group.types))
        selection = _selection(table, group, steps, final=final)
        local = LocalPlan.of(table, selection.frame)
        return None if local is None else (local, selection)

    try:
        key = (session, settings_hash(session), steps, final, given.schema, group.types)
        with plans.borrowed(key, make) as known:
            if known is None or not known[0].takes(given):
                return None
            local, selection = known
            return selection.batches(local.rows(given)), selection.types
    except Exception:  # noqa: BLE001 - whatever it is
        # If the batch is invalid, planning it again reports the reason.
        _log.debug("A kept plan could not be used for topic %s", group.topic, exc_info=True)
        return None


def _selection(frame: DataFrame, group: RecordGroup, steps: Sequence[Step], *, final: bool) -> _Selection:
    """Apply the transforms to columns. Raises AllRowsRefusedError if the transforms refuse the columns."""
    with _planning():
        transformed = apply_chain(frame, steps)
        where = f"the transformed records of topic {group.topic}"
        found = column_types(transformed.schema, where=where, batch=False)
        schemaless = _schemaless(group, found)
    selected = ["topic", "partition", "timestamp", "headers", ROW, *({IDENTITY} & {*transformed.columns})]
    structured = []
    for name in ("value", "key"):
        kind = transformed.schema[name].dataType
        if final and schemaless[name] and isinstance(kind, _STRUCTURED):
            structured.append(name)
            selected.append(_AS_JSON.format(name))
        elif final and isinstance(kind, t.NullType):
            # Converters can represent each type except NullType.
            selected.append(f"CAST({name} AS STRING) AS {name}")
        else:
            selected.append(name)
    types = replace(
        found,
        value=None if schemaless["value"] else found.value,
        key=None if schemaless["key"] else found.key,
        raw_headers=group.types.has_headers,
    )
    return _Selection(transformed.selectExpr(*selected), types, structured)


@contextmanager
def _planning() -> Iterator[None]:
    """Within this context, convert errors that the columns cause to AllRowsRefusedError.

    A RetriableError becomes a RetriableJobError. ConfigError, PluginError and errors of Spark itself stay unchanged.
    """
    try:
        yield
    except (ConfigError, PluginError):
        raise
    except RetriableError as error:
        raise RetriableJobError(str(error)) from error
    except Exception as error:
        if isinstance(error, Py4JError | PySparkException | OSError) and not JobFailure.of(error).is_of_data:
            raise
        raise AllRowsRefusedError(error) from error


def _schemaless(group: RecordGroup, found: ColumnTypes) -> dict[str, bool]:
    """Return whether the transformed value has no schema, and the same for the key.

    Raises DataError if a schema name is set without a schema.
    """
    schemaless = {"value": group.types.value is None}
    schemaless["key"] = group.types.key is None if group.types.has_key else schemaless["value"]
    for name, kind in (("value", found.value), ("key", found.key)):
        if schemaless[name] and isinstance(kind, NamedStruct):
            raise DataError(
                f"The {name}s for the topic {group.topic} have no schema, so SetSchemaMetadata cannot name it: remove "
                f"the transform, or let the source give a {name}_schema"
            )
    return schemaless


def _all_columns(group: RecordGroup) -> pa.RecordBatch:
    count = group.columns.num_rows
    absent = {
        "topic": lambda: pa.repeat(group.topic, count),
        "partition": lambda: pa.nulls(count, pa.int32()),
        "key": lambda: pa.nulls(count),
        "timestamp": lambda: pa.nulls(count, pa.int64()),
        "headers": lambda: pa.nulls(count, TEXT_HEADERS),
    }
    present = group.columns
    columns = {name: present[name] if name in present.schema.names else absent[name]() for name in COLUMNS}
    if group.types.value is None and columns["value"].null_count == count:
        # Tombstones without a schema must not have a type that a transform could refuse.
        columns["value"] = pa.nulls(count)
    return pa.RecordBatch.from_pydict({**columns, ROW: present[ROW]})


def _frame_schema(given: pa.RecordBatch, types: ColumnTypes) -> t.StructType:
    """The types of the columns, with the schemas that the source declared: Arrow's types do not contain these."""
    schema = from_arrow_schema(given.schema, prefer_timestamp_ntz=True)
    for name, declared in (("value", types.value), ("key", types.key)):
        if declared is not None:
            schema[name].dataType = declared
    return schema


@dataclass(frozen=True, slots=True)
class ReadStage:
    """Reads a reader's splits as the rows of a DataFrame, for `DataFrame.mapInArrow`.

    The failures of this stage contain the `mark`.
    """

    rows: SplitRows
    handling: ErrorHandling
    mark: str = field(repr=False)

    def __call__(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the splits of a Spark partition."""
        try:
            # A RefusedStage reports the items that are not rows.
            yield from self.rows.batches(given, ErrorHandler(replace(self.handling, dead_letter_topic=None)))
        except FencepostError as error:
            raise CarriedFailureError(error, self.mark) from None


def read_frame(session: SparkSession, rows: SplitRows, pipeline: Pipeline, mark: str) -> DataFrame:
    """A reader's splits as a DataFrame, with rows in the order of the splits. Failures to read contain the `mark`."""
    numbers = session.range(0, rows.runs, numPartitions=rows.runs)
    return numbers.mapInArrow(ReadStage(rows, pipeline.errors, mark), reader_schema(rows.reader))


def check_user_types(frame: DataFrame, *, where: str) -> None:
    """Raise DataError if a column has a user-defined type whose class would have to be imported.

    Files may declare such a type with the name of a Python class; Parquet files can, in Spark's own metadata. If
    pyspark were asked for such a schema, it would import the module that the file names. So the JVM is asked first.
    """
    schema = json.loads(frame._jdf.schema().json())  # noqa: SLF001 - pyspark has no schema that is not parsed
    for column in schema["fields"]:
        for name in _user_types(column["type"]):
            if name not in _LINEAR_ALGEBRA and not _is_imported(name):
                raise DataError(
                    f"The column '{column['name']}' of {where} is of the user-defined type {name}, whose class is in no "
                    "module that was imported: import its module if you trust it, or cast the column to the type that it "
                    "is stored as"
                )


def _is_imported(user_type: str) -> bool:
    """Whether Python has already imported this class.

    An imported module is not sufficient: if it is a package, Python would import a submodule with the class's name.
    """
    module, _, name = user_type.rpartition(".")
    found = getattr(sys.modules.get(module), "__dict__", {}).get(name)
    return isinstance(found, type) and issubclass(found, t.UserDefinedType)


def _user_types(kind: Any) -> Iterator[str]:
    if isinstance(kind, dict):
        if kind["type"] == "udt":
            yield str(kind.get("pyClass"))
        parts = [kind.get(name) for name in ("elementType", "keyType", "valueType")]
        for part in parts + [column["type"] for column in kind.get("fields", ())]:
            yield from _user_types(part)


def transform_frame(frame: DataFrame, pipeline: Pipeline) -> tuple[DataFrame, ColumnTypes]:
    """Apply the transforms to a batch. Columns that are missing in the result, or the same in all rows, are left out.

    Row numbers in the column ROW are kept.

    Raises AllRowsRefusedError if the transforms refuse the columns, whatever the rows are.
    """
    given = column_types(frame.schema, where=pipeline.given)
    made_raw = needs_raw_headers(given)
    complete = _with_all_columns(frame, pipeline, given)
    if made_raw:
        complete = _with_raw_headers(complete, pipeline)
    with _planning():
        transformed = apply_chain(complete, pipeline.transforms)
    constants = constant_columns(transformed, [name for name in COLUMNS if name != "value"])
    absent = [name for name, value in constants.items() if value is None]
    if "topic" in constants and constants["topic"] == pipeline.default_topic:
        absent.append("topic")
    left = transformed.drop(*absent)
    with _planning():
        types = column_types(left.schema, where=f"{pipeline.given}, transformed,")
    return left, replace(types, raw_headers=made_raw and isinstance(types.header, t.BinaryType))


def _with_raw_headers(frame: DataFrame, pipeline: Pipeline) -> DataFrame:
    topic = pipeline.default_topic or ""
    prepare_headers(pipeline, topic)
    fields = [t.StructField(field.name, field.dataType) for field in frame.schema.fields]
    converted = frame.mapInArrow(RawHeaders(topic, pipeline.header_converter), t.StructType(fields))
    kept = {field.name: field.metadata for field in frame.schema.fields if field.metadata}
    return converted.withColumns({name: F.col(name).alias(name, metadata=kept[name]) for name in kept})


def _with_all_columns(frame: DataFrame, pipeline: Pipeline, types: ColumnTypes) -> DataFrame:
    columns = {name: F.col(name) for name in frame.columns if name in COLUMNS}
    for name, kind in _ABSENT.items():
        columns.setdefault(name, F.lit(None).cast(kind).alias(name))
    default = F.lit(pipeline.default_topic)
    columns["topic"] = F.coalesce(F.col("topic"), default).alias("topic") if types.has_topic else default.alias("topic")
    columns["partition"] = columns["partition"].cast("INT").alias("partition")
    if types.has_timestamp:
        given = frame.schema["timestamp"].dataType
        if isinstance(given, t.TimestampType | t.TimestampNTZType):
            columns["timestamp"] = utc_millis(F.col("timestamp"), given).alias("timestamp")
    numbers = [ROW] if ROW in frame.columns else []
    return frame.select(*(columns[name] for name in COLUMNS), *numbers)


def constant_columns(frame: DataFrame, names: list[str]) -> dict[str, Any]:
    """Return the columns that have the same value in all rows according to Catalyst, with this value.

    For such columns, routing does not need to read the rows.

    Only nulls and constant topics are returned. The plan may differ between versions of pyspark, so a column counts as
    not constant if the plan does not show its value.
    """
    plan = frame.select(*names)._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - pyspark shows no plan
    if plan.nodeName() != "Project":
        return {}
    expressions = plan.expressions()
    constants: dict[str, Any] = {}
    for position, name in enumerate(names):
        expression = expressions.apply(position)
        literal = expression.child() if expression.nodeName() == "Alias" else expression
        if literal.nodeName() == "Literal":
            value = literal.value()
            if value is None or name == "topic":
                constants[name] = None if value is None else value.toString()
    return constants
