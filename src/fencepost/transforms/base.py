"""Base classes of the transforms of keys and values. Property names and behaviour are the same as in Kafka Connect."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import DataError
from fencepost.api.plugin import Predicate, Transformation
from fencepost.transforms.field_paths import FieldPath, alternatives, field_at

C = TypeVar("C", bound=type[Transformation] | type[Predicate])
P = TypeVar("P", bound="PartTransformation")

APPLIES: Final = "__fencepost_applies"
"""The column that says for each record whether a transform with a predicate applies to it."""

_PLANNED_BY_SCHEMA: Final[set[type]] = set()


def planned_by_schema(plugin: C) -> C:
    """Mark a class whose expressions depend only on its properties, the columns' types and the session's settings.

    A plan for such expressions can be used for all batches with the same columns. Do not mark a class whose expressions
    depend on the current time, or on rows. Subclasses do not inherit the mark, because it is unknown what they add.
    """
    _PLANNED_BY_SCHEMA.add(plugin)
    return plugin


def is_planned_by_schema(plugin: Transformation | Predicate) -> bool:
    """Whether a plugin's own class is marked with `planned_by_schema`, and its properties do not revoke the mark."""
    return type(plugin) in _PLANNED_BY_SCHEMA and not getattr(plugin, "planned_anew", False)


_READS_NO_CONTENT: Final[set[type]] = set()


def reads_no_content(plugin: C) -> C:
    """Mark a class that neither reads nor changes the content of keys, values and header values.

    For a marked class, keys, values and header values may be bytes without a schema.

    Subclasses do not inherit the mark.
    """
    _READS_NO_CONTENT.add(plugin)
    return plugin


def is_without_content(plugin: Transformation | Predicate) -> bool:
    """Whether a plugin's own class is marked with `reads_no_content`."""
    return type(plugin) in _READS_NO_CONTENT


class _Configured:
    """Keeps the parsed properties in `self.properties`."""

    definitions: ClassVar[ConfigDef] = ConfigDef()
    properties: Mapping[str, Any]

    def config(self) -> ConfigDef:
        """Return the definitions of the plugin's own properties."""
        return self.definitions

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError."""
        self.properties = self.definitions.parse(configs)


class RecordTransformation(_Configured, Transformation):
    """A transform of whole records. Subclasses implement `apply`."""

    @property
    def keeps_topics(self) -> bool:
        """Whether records keep their topics."""
        return False

    @property
    def multiplies(self) -> bool:
        """Whether one record may become several."""
        return False


class DroppingTransformation(RecordTransformation):
    """A transform that drops records. With a predicate, it drops only records that the predicate selects.

    Subclasses implement `kept` and `changed_records`.
    """

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the kept records, changed."""
        return self.changed_records(self.rows(records))

    def rows(self, records: DataFrame, applies: Column | None = None) -> DataFrame:
        """Return the kept records and the records to which the transform does not apply, all of them unchanged.

        `applies` is true for the records to which the transform applies; None means all. A transform that makes several
        records of one does so here.
        """
        kept = self.kept(records)
        return records.filter(kept if applies is None else ~applies | kept)

    @abstractmethod
    def kept(self, records: DataFrame) -> Column:
        """Return which records are kept, as BOOLEAN, never null."""

    @abstractmethod
    def changed_records(self, records: DataFrame) -> DataFrame:
        """Return all of the given records, changed."""

    def log_dropped(self, records: pa.RecordBatch, whose: str) -> None:
        """Log how many records of a batch are dropped although the user may not expect that.

        The message begins with `whose`, which names the owner of the records, such as a task.
        """


class RecordPredicate(_Configured, Predicate):
    """A predicate on records. Subclasses implement `test`."""


class PartTransformation(_Configured, Transformation):
    """A transform of the records' keys or values.

    A null stays null, unless a subclass overrides that.
    """

    part: ClassVar[str] = "value"
    multiplies: ClassVar[bool] = False

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records with their keys, or their values, changed."""
        kind = records.schema[self.part].dataType
        if isinstance(kind, NullType):
            return records
        column = F.col(self.part)
        if APPLIES in records.columns:
            # Spark also computes the result for records that are not selected, and must not fail for them.
            column = F.when(F.col(APPLIES), column)
        return records.withColumn(self.part, self.changed(column, kind))

    @abstractmethod
    def changed(self, column: Column, kind: DataType) -> Column:
        """Return the changed part. `column` is the unchanged part, of type `kind`.

        Raises DataError if the transform does not support the type.
        """

    def struct(self, kind: DataType) -> StructType:
        """Return the type of a struct. Raises DataError for another type."""
        if not isinstance(kind, StructType):
            raise DataError(
                f"The transform {type(self).__name__} needs a {self.part} that is a struct, but it is of type "
                f"{kind.simpleString()}: put HoistField before it, or remove it"
            )
        return kind

    def field(self, kind: DataType, path: FieldPath) -> StructField:
        """Return the field at a path of a struct. Raises DataError if it does not exist."""
        found = field_at(self.struct(kind), path)
        if found is None:
            raise DataError(
                f"The transform {type(self).__name__} needs the field {'.'.join(path)!r}, which the {self.part} does not "
                f"have; it has: {alternatives('.'.join(path), self.struct(kind).names)}. Correct the transform's properties"
            )
        return found


def for_keys(transform: type[P]) -> type[P]:
    """Return a transform for keys. It processes keys as the given transform processes values.

    The caller must name it `<name>Key`.
    """
    name = f"{transform.__name__}Key"
    members = {"__doc__": f"{transform.__name__} for keys.", "__module__": transform.__module__, "part": "key"}
    return planned_by_schema(type(name, (transform,), members))


def refused(records: DataFrame, reason: Column) -> Column:
    """Return a column that raises an error with `reason`, but only for records to which the transform applies.

    Spark also computes the column for other records.
    """
    refusal = F.raise_error(reason)
    return F.when(F.col(APPLIES), refusal) if APPLIES in records.columns else refusal


def define_null_default(definitions: ConfigDef) -> ConfigDef:
    """Add the property `replace.null.with.default`, and return the definitions."""
    return definitions.define(
        "replace.null.with.default", ConfigDef.Type.BOOLEAN, True, ConfigDef.Importance.MEDIUM,
        "Accepted for compatibility: Spark's types carry no default values to replace nulls with.",
    )  # fmt: skip


def divided(column: Column, divisor: int) -> Column:
    """Return whole numbers divided by `divisor`, rounded towards zero as in Java.

    `/` would make DOUBLEs, which lose digits.
    """
    return F.call_function("div", column, F.lit(divisor))


def formatted(milliseconds: Column, pattern: str) -> Column:
    """Return milliseconds since the epoch as a text in UTC, whatever the session's time zone."""
    return _formatted(F.timestamp_millis(milliseconds), pattern)


def _formatted(time: Column, pattern: str) -> Column:
    # date_format uses the session's time zone. Only the options of JSON can format a TIMESTAMP in another time zone.
    options = {"timestampFormat": pattern, "timestampNTZFormat": pattern, "timeZone": "UTC"}
    return F.get_json_object(F.to_json(F.struct(time.alias("t")), options), "$.t")


def text(column: Column, kind: DataType) -> Column:
    """Return a text like SimpleHeaderConverter's: times in ISO 8601 and UTC, bytes in base64, structures in JSON."""
    if isinstance(kind, BinaryType):
        return F.base64(column)
    if isinstance(kind, TimestampType | TimestampNTZType):
        return _formatted(column, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    if isinstance(kind, StructType | ArrayType | MapType):
        return F.to_json(column, {"ignoreNullFields": "false"})
    return column.cast(StringType())


def is_json(texts: Column) -> Column:
    """Return whether each text is a single JSON object or array that a VARIANT can hold. Never null."""
    # Spark ignores text after a value. Only one complete value fits both into an array and into a field of an object.
    framed = (F.concat(F.lit(start), texts, F.lit(end)) for start, end in (("[", "]"), ('{"a":', "}")))
    in_array, in_object = (F.try_parse_json(text).isNotNull() for text in framed)
    return texts.rlike(r"\A\s*[{\[]") & in_array & in_object
