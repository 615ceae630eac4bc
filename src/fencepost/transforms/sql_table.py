"""Transforms of others that are a few expressions each: one table of definitions on Sql.

Each row has the properties of the Java class, and returns the properties of Sql that do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from pyspark.sql.types import StructType

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.spark_names import backticked
from fencepost.config.java_regex import java_pattern, java_regex
from fencepost.config.validators import not_blank, one_of
from fencepost.transforms.base import planned_by_schema
from fencepost.transforms.sql import SqlTransformation, define_common
from fencepost.transforms.sql_translation import translated

_Type, _Importance = ConfigDef.Type, ConfigDef.Importance
_NULLS: Final = ("keep", "drop", "evaluate")

Translation = Callable[[Mapping[str, Any], StructType], Mapping[str, str | None]]
"""Takes parsed properties and the types of a record's columns; returns properties of Sql."""


class TableTransformation(SqlTransformation):
    """A transform whose properties of Sql are made by a row of the table."""

    translation: ClassVar[Translation]
    check: ClassVar[Callable[[Mapping[str, Any]], None]]

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties. Raises ConfigError for those that the transform refuses."""
        super().configure(configs)
        type(self).check(self.properties)

    def sql(self, schema: StructType) -> Mapping[str, str | None]:
        """Return the properties of Sql."""
        return type(self).translation(self.properties, schema)


def _defined(
    name: str,
    doc: str,
    definitions: ConfigDef,
    translation: Translation,
    check: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> type[TableTransformation]:
    members = {
        "__doc__": doc,
        "__module__": __name__,
        "definitions": definitions,
        "translation": staticmethod(translation),
        "check": staticmethod(check),
    }
    return planned_by_schema(type(name, (TableTransformation,), members))


def sql_text(text: str) -> str:
    """Return a literal of SQL for a text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sql_path(*parts: str) -> str:
    """Return the path of a field in SQL."""
    return ".".join(backticked(part) for part in parts)


def _scripting(expression: str, doc: str) -> ConfigDef:
    return define_common(
        ConfigDef()
        .define(
            "language", _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
            "The language of the expression: sql, which is Spark's. Scripting languages need an engine and are refused; "
            "the message shows the expression in SQL.", validator=not_blank,
        )
        .define(expression, _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH, doc, validator=not_blank)
        .define(
            "topic.regex", _Type.STRING, None, _Importance.LOW,
            "A regular expression (Java's) for the whole names of the topics whose records are evaluated; others pass. "
            "Unset: all.", validator=java_pattern,
        )
        .define(
            "null.handling.mode", _Type.STRING, "keep", _Importance.LOW,
            "What becomes of records whose value is null. keep: they pass. drop: they are dropped. evaluate: the "
            "expression is evaluated for them.", validator=one_of(_NULLS),
        )
    )  # fmt: skip


def _only_sql(expression: str) -> Callable[[Mapping[str, Any]], None]:
    def check(given: Mapping[str, Any]) -> None:
        if given["language"].lower() != "sql":
            raise ConfigError(
                f"language={given['language']} needs a scripting engine, and a worker of fencepost has none. The "
                f"expression in SQL, as far as it is translated: language=sql and {expression}="
                f"{translated(given[expression])}",
                name="language",
            )

    return check


def _of_topics(given: Mapping[str, Any]) -> str:
    pattern = given["topic.regex"]
    return f"topic RLIKE {sql_text(java_regex('topic.regex', pattern).whole)}" if pattern else "true"


def _filtered(given: Mapping[str, Any], _: StructType) -> Mapping[str, str | None]:
    mode = given["null.handling.mode"].lower()
    null = "" if mode == "evaluate" else f"WHEN value IS NULL THEN {str(mode == 'keep').lower()} "
    # The line break ends a comment in the condition.
    return {"where": f"CASE WHEN NOT {_of_topics(given)} THEN true {null}ELSE ({given['condition']}\n) END"}


def _routed(given: Mapping[str, Any], _: StructType) -> Mapping[str, str | None]:
    mode = given["null.handling.mode"].lower()
    evaluated = _of_topics(given) + ("" if mode == "evaluate" else " AND value IS NOT NULL")
    dropped = f"value IS NOT NULL OR NOT {_of_topics(given)}" if mode == "drop" else None
    return {"topic": f"CASE WHEN {evaluated} THEN ({given['topic.expression']}\n) END", "where": dropped}


DebeziumFilter = _defined(
    "DebeziumFilter",
    "Keeps records for which a condition is true: Debezium's Filter, in SQL.",
    _scripting("condition", "The condition for records that are kept, over value, key, topic, headers and timestamp."),
    _filtered,
    _only_sql("condition"),
)
ContentBasedRouter = _defined(
    "ContentBasedRouter",
    "Routes records to the topic that an expression gives, and where it is null leaves them: Debezium's, in SQL.",
    _scripting("topic.expression", "The expression for the topic. Where it is null, the topic stays."),
    _routed,
    _only_sql("topic.expression"),
)
