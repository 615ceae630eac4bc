"""Sql: changes, drops, routes and multiplies records with expressions of Spark's SQL."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql import types as t

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.config.validators import one_of
from fencepost.transforms.base import APPLIES, DroppingTransformation, RecordPredicate, planned_by_schema
from fencepost.transforms.sql_columns import fitted_column
from fencepost.transforms.sql_parser import (
    SqlExpression,
    SqlProperty,
    check_without_rows,
    parsed_list,
    parsed_one,
    settings_of,
)
from fencepost.transforms.sql_plan import check_plan

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
COLUMNS: Final = ("topic", "partition", "key", "value", "timestamp", "headers")
ITEM: Final = "item"
"""The column with one item of the array that is exploded."""

MISSING: Final = ("fail", "null")
_NONDETERMINISTIC: Final = "allow.nondeterministic"
_SELECT: Final = "select"
_EXPLODE: Final = "explode"


def define_common(definitions: ConfigDef) -> ConfigDef:
    """Add the properties that all plugins with expressions have, and return the definitions."""
    return definitions.define(
        "missing", _Type.STRING, "fail", _Importance.MEDIUM,
        "What happens if an expression uses a field that the records of a batch do not have. fail: the records are "
        "refused (see errors.tolerance). null: the field is null; if it becomes a field of the result, give it a type "
        "with CAST.", validator=one_of(MISSING),
    ).define(
        _NONDETERMINISTIC, _Type.BOOLEAN, False, _Importance.LOW,
        "Whether functions are allowed whose result differs each time, such as now() or uuid(). A batch that is "
        "processed again after a failure then has other results, and the expressions are planned anew for each batch.",
    )  # fmt: skip


class SqlExpressions:
    """The parsed expressions of a plugin's properties. Each expression is parsed once per JVM."""

    def __init__(self, plugin: object, properties: Mapping[str, Any]) -> None:
        self._plugin = type(plugin).__name__
        self._properties = properties
        self._nondeterministic = bool(properties.get(_NONDETERMINISTIC))
        self._missing_is_null = properties.get("missing", "fail").lower() == "null"
        self._parsed: tuple[object, dict[tuple[str, str, bool], list[SqlExpression]]] = (None, {})

    @property
    def nondeterministic(self) -> bool:
        """Whether the results of expressions may be different at each call."""
        return self._nondeterministic

    def check(self, name: str, text: str, *, has_item: bool = False) -> None:
        """Check the value of a property, as far as that is possible without records. Raises ConfigError."""
        parse = parsed_list if name == _SELECT else parsed_one
        check_without_rows(self._given(name, text, has_item=has_item), parse)

    def one(self, name: str, text: str, records: DataFrame) -> Column:
        """Return the expression of a property as a column of records. Raises ConfigError and DataError."""
        return self.column(self.parsed(name, text, records), records)

    def parsed(self, name: str, text: str, records: DataFrame) -> SqlExpression:
        """Return the one expression of a property. Raises ConfigError."""
        return self._known(name, text, records, lambda given: [parsed_one(given)])[0]

    def listed(self, name: str, text: str, records: DataFrame) -> Sequence[SqlExpression]:
        """Return the expressions of a property that contains a list. Raises ConfigError."""
        return self._known(name, text, records, parsed_list)

    def column(self, expression: SqlExpression, records: DataFrame) -> Column:
        """Return an expression as a column of records. Raises DataError for fields that the records do not have."""
        with settings_of(records.sparkSession):
            return expression.column(records.schema, missing_is_null=self._missing_is_null)

    def _known(
        self, name: str, text: str, records: DataFrame, parse: Callable[[SqlProperty], list[SqlExpression]]
    ) -> list[SqlExpression]:
        gateway = SparkContext._gateway  # noqa: SLF001 - expressions live in its JVM
        if self._parsed[0] is not gateway:
            self._parsed = (gateway, {})
        has_item = ITEM in records.columns
        known, key = self._parsed[1], (name, text, has_item)
        if key not in known:
            with settings_of(records.sparkSession):
                known[key] = parse(self._given(name, text, has_item=has_item))
        return known[key]

    def _given(self, name: str, text: str, *, has_item: bool) -> SqlProperty:
        columns = (*COLUMNS, ITEM) if has_item else COLUMNS
        given = next((given for given in (name, *self._properties) if self._properties.get(given) == text), None)
        return SqlProperty(self._plugin, name, text, columns, self._nondeterministic, given)


class SqlTransformation(DroppingTransformation):
    """A transform that consists of expressions. Subclasses translate their own properties to properties of Sql.

    Expressions see the original record: all are evaluated before the first column is replaced. `item` is one item of
    the exploded array. A record is dropped if `where` is false or null for it.
    """

    expressions: SqlExpressions
    written: ClassVar[Sequence[str]] = ()
    """The properties in which users write SQL."""

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for an invalid property, and for an expression that is not allowed."""
        super().configure(configs)
        self.expressions = SqlExpressions(self, self.properties)
        for name in self.written:
            if text := self.properties[name]:
                has_item = name != _EXPLODE and bool(self.properties.get(_EXPLODE))
                self.expressions.check(name, text, has_item=has_item)

    @abstractmethod
    def sql(self, schema: t.StructType) -> Mapping[str, str | None]:
        """Return properties of Sql for records. `schema` has the types of the records' columns.

        Raises ConfigError and DataError for types with which the transform cannot work.
        """

    @property
    def multiplies(self) -> bool:
        """Whether one record may become several."""
        return bool(self.properties.get(_EXPLODE))

    @property
    def planned_anew(self) -> bool:
        """Whether the transform must be planned for each batch."""
        return self.expressions.nondeterministic

    def rows(self, records: DataFrame, applies: Column | None = None) -> DataFrame:
        """Return the kept records, one for each item, and the records to which the transform does not apply."""
        given, sql = records, self.sql(records.schema)
        if items := sql.get("explode"):
            exploded = self._items(items, records)
            if applies is not None:
                nothing = F.array_compact(exploded).getItem(0)
                exploded = F.when(applies, exploded).otherwise(F.array(F.when(F.lit(False), nothing)))
            records = records.select("*", F.explode(exploded).alias(ITEM))
        if sql.get("where"):
            records = super().rows(records, applies)
        return check_plan(records, given, type(self).__name__, deterministic=not self.planned_anew)

    def _items(self, text: str, records: DataFrame) -> Column:
        items = self.expressions.one("explode", text, records)
        kind = records.select(items.alias(ITEM)).schema[ITEM].dataType
        if isinstance(kind, t.NullType):
            return F.lit(None).cast("ARRAY<VOID>")
        if not isinstance(kind, t.ArrayType):
            raise DataError(
                f"{type(self).__name__} needs an array in explode, but {text} is of type {kind.simpleString()}: for a map "
                "write map_entries(...)"
            )
        return items

    def kept(self, records: DataFrame) -> Column:
        """Return which records are kept."""
        where = self.sql(records.schema).get("where")
        if not where:
            return F.lit(True)
        # A condition that is not BOOLEAN is refused here, not converted.
        return F.when(self.expressions.one("where", where, records), F.lit(True)).otherwise(F.lit(False))

    def changed_records(self, records: DataFrame) -> DataFrame:
        """Return the records with the replaced columns. Raises DataError for columns of impossible types."""
        sql = self.sql(records.schema)
        replaced = self._replaced(sql, records)
        if replaced:
            columns = {name: self.expressions.column(given, records) for name, given in replaced.items()}
            if APPLIES in records.columns:
                # Expressions are evaluated only for selected records, because they may refuse others.
                columns = {name: F.when(F.col(APPLIES), column) for name, column in columns.items()}
            found = records.select(*(column.alias(name) for name, column in columns.items()))
            check_plan(found, records, type(self).__name__, deterministic=not self.planned_anew)
            fitted = {
                name: fitted_column(
                    given.given, columns[name], found.schema[name], records.schema[name], sql.get("schema.name")
                )
                for name, given in replaced.items()
                if not (given.is_column and given.node.parts[0].lower() == name)
            }
            if fitted:
                records = records.withColumns(fitted)
        return records.drop(ITEM) if ITEM in records.columns else records

    def _replaced(self, sql: Mapping[str, str | None], records: DataFrame) -> dict[str, SqlExpression]:
        """Return the expressions of `select` and of single columns, by column.

        Raises ConfigError for a name that is not a column, and for a column with two expressions.
        """
        found: dict[str, SqlExpression] = {}
        if text := sql.get("select"):
            for expression in self.expressions.listed("select", text, records):
                name = (expression.name or "").lower()
                if name not in COLUMNS:
                    raise expression.given.refused(
                        f"each expression must be one of the columns {', '.join(COLUMNS)}, or be named so with AS"
                        + (f"; {expression.name} is none of them" if expression.name else "")
                    )
                if name in found:
                    raise expression.given.refused(f"{name} is there twice")
                found[name] = expression
        for name in COLUMNS:
            if text := sql.get(name):
                if name in found:
                    raise ConfigError(f"{name} is in select as well: remove one of them", name=name)
                found[name] = self.expressions.parsed(name, text, records)
        return found


@planned_by_schema
class Sql(SqlTransformation):
    """Replaces the columns of records by expressions of Spark's SQL, drops records, and makes several records of one.

    The columns are topic, partition, key, value, timestamp (milliseconds) and headers. Columns that are not named stay.
    """

    written = (_SELECT, *COLUMNS, "where", _EXPLODE)

    definitions = define_common(
        ConfigDef()
        .define(
            "select", _Type.STRING, None, _Importance.HIGH,
            "Expressions for columns, as after SELECT: each is a column or is named with AS, as in topic, "
            "named_struct('id', value.id) AS value.",
        )
        .define("key", _Type.STRING, None, _Importance.MEDIUM, "An expression for the new key.")
        .define(
            "value", _Type.STRING, None, _Importance.MEDIUM,
            "An expression for the new value. For a tombstone, all fields of value are null: to leave tombstones as "
            "they are, set the transform's predicate to a RecordIsTombstone, and negate=true.",
        )
        .define(
            "topic", _Type.STRING, None, _Importance.MEDIUM,
            "An expression for the new topic. If it is null, the topic stays.",
        )
        .define(
            "timestamp", _Type.STRING, None, _Importance.MEDIUM,
            "An expression for the new timestamp: a TIMESTAMP, or milliseconds since 1970.",
        )
        .define(
            "partition", _Type.STRING, None, _Importance.MEDIUM,
            "An expression for the number of the Kafka partition.",
        )
        .define(
            "headers", _Type.STRING, None, _Importance.MEDIUM,
            "An expression that replaces all headers: an array of structs with the fields key and value, or a map.",
        )
        .define(
            "where", _Type.STRING, None, _Importance.HIGH,
            "A condition: records for which it is true are kept, all others are dropped.",
        )
        .define(
            "explode", _Type.STRING, None, _Importance.MEDIUM,
            "An expression for an array. Each item of the array becomes a record, in their order; the other "
            "expressions refer to the item as item. A record whose array is empty or null is dropped.",
        )
        .define("schema.name", _Type.STRING, None, _Importance.LOW, "The name for the schema of the new value.")
    )  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError if they change nothing."""
        super().configure(configs)
        given = self.properties
        if not any(given[name] for name in (*COLUMNS, "select", "where", "explode")):
            raise ConfigError("There is nothing to do: set select, where, explode or one of the columns", name="select")
        if given["schema.name"] and not (given["select"] or given["value"]):
            raise ConfigError("schema.name names a new value: set select or value as well", name="schema.name")

    @property
    def keeps_topics(self) -> bool:
        """Whether records keep their topics."""
        return not self.properties["topic"] and not self.properties["select"]

    def sql(self, schema: t.StructType) -> Mapping[str, str | None]:  # noqa: ARG002 - whatever they are
        """Return the properties."""
        return self.properties


@planned_by_schema
class SqlPredicate(RecordPredicate):
    """True for records for which an expression of Spark's SQL is true."""

    definitions = define_common(
        ConfigDef().define(
            "condition", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
            "The condition, over the columns topic, partition, key, value, timestamp and headers.",
        )
    )  # fmt: skip

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for an invalid property, and for a condition that is not allowed."""
        super().configure(configs)
        self._expressions = SqlExpressions(self, self.properties)
        self._expressions.check("condition", self.properties["condition"])

    @property
    def planned_anew(self) -> bool:
        """Whether the predicate must be planned for each batch."""
        return self._expressions.nondeterministic

    def test(self, records: DataFrame) -> Column:
        """Return whether the condition is true."""
        found = self._expressions.one("condition", self.properties["condition"], records)
        check_plan(
            records.select(found.alias("condition")), records, type(self).__name__, deterministic=not self.planned_anew
        )
        return found
