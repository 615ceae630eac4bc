"""Parses and checks expressions in Spark's SQL over the columns of a record, and makes columns of them.

Expressions come over the network, so they must be safe before Spark analyses them. A text is parsed by Catalyst's own
parser. Unlike `selectExpr`, this parser resolves no variables (`${env:NAME}` would be the worker's environment). The
result must consist of known nodes, allowed functions, and names of the record's columns. The same tree becomes the
column.
https://spark.apache.org/docs/latest/sql-ref-syntax.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, NullType, StructType

from fencepost.api.errors import ConfigError, DataError
from fencepost.api.spark_names import backticked
from fencepost.transforms.field_paths import alternatives
from fencepost.transforms.sql_functions import ALLOWED, NODES, NONDETERMINISTIC, NOW_WITHOUT_ARGUMENTS, NULL_OF_NULL
from fencepost.transforms.sql_tokens import DEEPEST, DEEPEST_TYPE, why_refused, why_type_refused

_ATTRIBUTES: Final = ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable")
_STARS: Final = ("UnresolvedStar", "UnresolvedStarExceptOrReplace")
_PRESENT: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_TYPED_PRESENT: Final = re.compile(r"\b(date|timestamp\w*)\s*['\"]\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_LITERAL: Final = "Literal"
_WITH_SCHEMA: Final = ("from_json", "from_csv")
_OF_EXAMPLE: Final = ("schema_of_json", "schema_of_csv")
_SHOWN: Final = 100
"""The maximum number of characters of an expression that messages show."""
_TOO_DEEP: Final = f"it is nested more than {DEEPEST} deep"
_HEADERS: Final = "headers"
_TEXT_HEADERS: Final = "ARRAY<STRUCT<key: STRING, value: STRING>>"


@dataclass(frozen=True, slots=True)
class SqlProperty:
    """A property with SQL: its `name`, its `text`, and the columns that it may name, in lower case.

    `plugin` is the class that has the property, for messages. If `nondeterministic`, results may be different at each
    call. `given` is the property in which a user wrote the text; None if the plugin made the text.
    """

    plugin: str
    name: str
    text: str
    columns: Collection[str]
    nondeterministic: bool = False
    given: str | None = None

    def refused(self, why: str) -> ConfigError:
        """Return the error for a text that is refused."""
        shown = self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}..."
        return ConfigError(f"{self.plugin} does not accept {self.name}={shown}: {why}", name=self.name)


@dataclass(frozen=True, slots=True)
class _Node:
    """A copy of an expression in the JVM, so that walking the tree needs no calls of the JVM.

    `parts` are the parts of a name; `literal` is the value of a text literal.
    """

    java: Any
    kind: str
    children: tuple[_Node, ...]
    parts: tuple[str, ...] = ()
    literal: str | None = None

    @classmethod
    def of(cls, java: Any, depth: int = 0) -> _Node:
        """Return a copy of an expression. Raises RecursionError for an expression with too many nested levels."""
        if depth > DEEPEST:
            raise RecursionError
        kind = java.getClass().getSimpleName()
        children = tuple(cls.of(child, depth + 1) for child in _items(java.children()))
        parts: tuple[str, ...] = ()
        literal = None
        if kind in (*_ATTRIBUTES, "UnresolvedFunction"):
            parts = tuple(_items(java.nameParts()))
        elif kind in _STARS and java.target().isDefined():
            parts = tuple(_items(java.target().get()))
        elif kind == _LITERAL and java.dataType().simpleString() == "string":
            literal = java.toString()
        return cls(java, kind, children, parts, literal)

    @property
    def is_lambda(self) -> bool:
        return self.kind == "LambdaFunction"

    def arguments(self) -> frozenset[str]:
        """Return the names of a lambda function's arguments, in lower case."""
        return frozenset(child.parts[0].lower() for child in self.children[1:])


@dataclass(frozen=True, slots=True)
class SqlExpression:
    """A checked expression.

    `name` is the name after AS. Without AS, it is the column's name if the expression is only a column, else None.
    """

    given: SqlProperty
    name: str | None
    node: _Node

    @property
    def is_column(self) -> bool:
        """Whether the expression is only a column."""
        return self.node.kind == _ATTRIBUTES[0] and len(self.node.parts) == 1

    @property
    def is_null(self) -> bool:
        """Whether the expression is only NULL, without a type."""
        return self.node.kind == _LITERAL and self.node.java.dataType().simpleString() == "void"

    def column(self, schema: StructType, *, missing_is_null: bool) -> Column:
        """Return the expression as a column. `schema` has the types of the columns that it may use.

        If a column is null in all rows, it has no type, and its fields are null. Raises DataError for a field that the
        columns do not have, unless `missing_is_null`.
        """
        null = _Node.of(_parser().parseExpression("NULL"))
        rebuilt, _ = _Rebuild(self.given, schema, null, missing_is_null).visit(self.node, frozenset())
        return ClassicColumn(_jvm().org.apache.spark.sql.classic.ExpressionUtils.column(rebuilt.java))


def check_without_rows(given: SqlProperty, parse: Callable[[SqlProperty], object]) -> None:
    """Check an expression before there are records: by its words, and if there is a JVM, by Spark's parser.

    Raises ConfigError.
    """
    if why := why_refused(given.text, nondeterministic=given.nondeterministic):
        raise given.refused(why)
    if _jvm() is not None:
        # A JVM that is just ending cannot parse. Then an invalid expression fails with the first records.
        with suppress(Py4JError, OSError):
            parse(given)


def parsed_list(given: SqlProperty) -> list[SqlExpression]:
    """Return the checked expressions of a list, in the form that follows SELECT. Raises ConfigError for anything else.

    A star adds nothing, because columns that are not listed stay anyway.
    """
    plan = _parsed(given)
    if plan.nodeName() != "Project" or plan.child().nodeName() != "OneRowRelation":
        raise given.refused(
            "write a list of expressions, without FROM, WHERE, DISTINCT, sub-queries, hints and what else makes a query"
        )
    try:
        found = [_named(given, expression) for expression in _items(plan.projectList())]
    except RecursionError:
        raise given.refused(_TOO_DEEP) from None
    expressions = [expression for expression in found if expression.node.kind != _STARS[0]]
    for expression in expressions:
        _check(given, expression.node, frozenset())
    if not given.nondeterministic and (_TYPED_PRESENT.search(given.text) or _is_present(expressions)):
        raise given.refused(_nondeterministic("a date or timestamp of the present, such as 'now',"))
    return expressions


def parsed_one(given: SqlProperty) -> SqlExpression:
    """Return the checked expression of a text. Raises ConfigError if there is not exactly one."""
    expressions = parsed_list(given)
    if len(expressions) != 1:
        raise given.refused("write one expression")
    return expressions[0]


def _parsed(given: SqlProperty) -> Any:
    try:
        return _parser().parsePlan(f"SELECT {given.text}")
    except PySparkException as error:
        raise given.refused(str(error).strip().splitlines()[0].partition(" SQLSTATE")[0]) from error
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() == "StackOverflowError":
            raise given.refused(_TOO_DEEP) from None
        raise


@contextmanager
def settings_of(session: SparkSession) -> Iterator[None]:
    """In this block, let Spark's parser and expressions on this thread use the settings of a session.

    Parser and expressions use the thread's active session for settings such as the time zone of literals, and ANSI
    mode. A thread that did not start Spark has no active session, and would use Spark's defaults with the time zone of
    the JVM.
    """
    threads: Any = _jvm().org.apache.spark.sql.classic.SparkSession
    before = threads.getActiveSession()
    threads.setActiveSession(session._jsparkSession)  # noqa: SLF001 - pyspark sets none
    try:
        yield
    finally:
        if before.isDefined():
            threads.setActiveSession(before.get())
        else:
            threads.clearActiveSession()


def _jvm() -> Any:
    return SparkContext._jvm  # noqa: SLF001 - the JVM of pyspark's expressions


def _parser() -> Any:
    return getattr(getattr(_jvm().org.apache.spark.sql.catalyst.parser, "CatalystSqlParser$"), "MODULE$")


def _items(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _named(given: SqlProperty, java: Any) -> SqlExpression:
    kind = java.getClass().getSimpleName()
    if kind == "Alias":
        return SqlExpression(given, java.name(), _Node.of(java.child()))
    node = _Node.of(java.child() if kind == "UnresolvedAlias" else java)
    name = node.parts[-1] if node.kind == _ATTRIBUTES[0] and len(node.parts) == 1 else None
    return SqlExpression(given, name, node)


def _check(given: SqlProperty, node: _Node, scope: frozenset[str]) -> None:
    """Refuse unknown nodes. `scope` has the arguments of the lambda functions that enclose a node."""
    if node.kind not in NODES:
        raise given.refused(
            f"{_described(node)} is not allowed: an expression may use the record's columns, operators and functions of "
            "single rows, and no sub-query, window, parameter or variable"
        )
    if node.kind in (*_ATTRIBUTES, *_STARS):
        _check_name(given, node, scope)
    if node.kind == _STARS[1] and node.java.replacements().isDefined():
        raise given.refused("REPLACE after a star is not allowed")
    if node.kind == "UnresolvedFunction":
        _check_function(given, node)
    inner = scope | node.arguments() if node.is_lambda else scope
    for child in node.children[:1] if node.is_lambda else node.children:
        _check(given, child, inner)


def _check_name(given: SqlProperty, node: _Node, scope: frozenset[str]) -> None:
    if node.parts and node.parts[0].lower() in scope | set(given.columns):
        return
    if not node.parts:
        raise given.refused("a star within an expression must name a struct, as in value.*")
    if len(node.parts) == 1 and node.parts[0].lower() in NONDETERMINISTIC:
        _check_function(given, node)
    raise given.refused(
        f"there is no column {node.parts[0]!r}; a record has {', '.join(given.columns)}, and its fields are named as in "
        "value.id; texts are put in single quotes, and functions need parentheses"
    )


def _check_function(given: SqlProperty, node: _Node) -> None:
    name = ".".join(node.parts).lower()
    if name in NONDETERMINISTIC or (name in NOW_WITHOUT_ARGUMENTS and not node.children):
        if not given.nondeterministic:
            raise given.refused(_nondeterministic(f"the function {name}"))
    elif name not in ALLOWED:
        raise given.refused(
            f"the function {name} is not allowed. Allowed are Spark's functions of single rows that depend on their "
            "arguments alone; aggregates, generators, user-defined functions and functions that read files, run code or "
            "tell of the worker are not"
        )
    if name in _WITH_SCHEMA and len(node.children) > 1:
        _check_schema(given, name, node.children[1])


def _check_schema(given: SqlProperty, name: str, schema: _Node) -> None:
    """Refuse schemas that take Spark's parser minutes.

    Computed schemas are refused, too, because parsing them might also take minutes.
    """
    of_example = schema.kind == "UnresolvedFunction" and schema.parts[-1].lower() in _OF_EXAMPLE
    text = schema.children[0].literal if of_example and schema.children else schema.literal
    if text is None:
        raise given.refused(f"{name} needs its schema as a text, or as schema_of_json or schema_of_csv of a text")
    if why := why_type_refused(text):
        raise given.refused(f"the schema of {name} is refused, as {why}")
    if of_example and sum(map(text.count, "[{")) > DEEPEST_TYPE:
        raise given.refused(f"the example of {name} is refused, as it has more than {DEEPEST_TYPE} arrays and objects")


def _nondeterministic(what: str) -> str:
    return (
        f"{what} gives another result each time that a batch is processed, and a batch may be processed again. With "
        "allow.nondeterministic=true that is accepted"
    )


def _is_present(expressions: Sequence[SqlExpression]) -> bool:
    """Whether expressions contain a text such as 'now', and a conversion to a date or timestamp.

    Spark would convert the text to the current time or date.
    """
    nodes = [node for expression in expressions for node in _all(expression.node)]
    converts = any(
        (node.kind == "Cast" and node.java.dataType().simpleString().startswith(("date", "timestamp")))
        or (node.kind == "UnresolvedFunction" and re.search("date|timestamp", node.parts[-1].lower()))
        for node in nodes
    )
    return converts and any(node.literal is not None and _PRESENT.match(node.literal) for node in nodes)


def _all(node: _Node) -> Iterator[_Node]:
    yield node
    for child in node.children:
        yield from _all(child)


def _described(node: _Node) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", node.kind.removeprefix("Unresolved")).lower().strip("$")


@dataclass(frozen=True, slots=True)
class _Rebuild:
    """Replaces missing fields, and fields of values that have no type, by `null`."""

    given: SqlProperty
    schema: StructType
    null: _Node
    missing_is_null: bool

    def visit(self, node: _Node, scope: frozenset[str]) -> tuple[_Node, DataType | None]:
        """Return the replacement of a node, and its type if the node is a column or a field of a column."""
        if node.kind in _ATTRIBUTES and node.parts[0].lower() not in scope:
            kind = self._type_of(self.schema, list(node.parts), ".".join(node.parts))
            if node.parts[0].lower() == _HEADERS:
                return self._headers(node), kind
            return (self.null, kind) if isinstance(kind, NullType) else (node, kind)
        inner = scope | node.arguments() if node.is_lambda else scope
        visited = [self.visit(child, inner) for child in node.children[: 1 if node.is_lambda else None]]
        children = (*(child for child, _ in visited), *node.children[len(visited) :])
        if node.kind == "UnresolvedFunction" and node.parts[-1].lower() in NULL_OF_NULL and children[0] is self.null:
            # The function is replaced as well, because Spark would need the type of its argument.
            return self.null, NullType()
        if node.kind == "UnresolvedExtractValue" and (kind := visited[0][1]) is not None:
            found = self._extracted(kind, node.children[1], node)
            if isinstance(found, NullType):
                return self.null, found
            return self._with(node, children), found
        return self._with(node, children), None

    def _headers(self, node: _Node) -> _Node:
        """Return the headers. If a record has none, an empty array replaces null.

        Values without a declared type become texts: they are null, or the bytes of a polled record's headers.
        """
        kind = self.schema[_HEADERS].dataType
        pair = kind.elementType if isinstance(kind, ArrayType) else None
        if isinstance(pair, StructType) and not isinstance(pair[-1].dataType, BinaryType):
            declared = kind.simpleString()
        else:
            declared = _TEXT_HEADERS
        path = "".join(f".{backticked(part)}" for part in node.parts[1:])
        headers = f"coalesce(CAST({_HEADERS} AS {declared}), CAST(array() AS {declared})){path}"
        return _Node.of(_parser().parseExpression(headers))

    def _with(self, node: _Node, children: tuple[_Node, ...]) -> _Node:
        if all(new is old for new, old in zip(children, node.children, strict=True)):
            return node
        sequence = _jvm().org.apache.spark.api.python.PythonUtils.toSeq([child.java for child in children])
        return replace(node, java=node.java.withNewChildren(sequence), children=children)

    def _extracted(self, kind: DataType, extraction: _Node, node: _Node) -> DataType | None:
        if isinstance(kind, NullType):
            return kind
        if extraction.literal is not None and isinstance(kind, StructType):
            return self._type_of(kind, [extraction.literal], node.java.toString().replace("'", ""))
        if isinstance(kind, ArrayType):
            return kind.elementType if extraction.literal is None else None
        return kind.valueType if isinstance(kind, MapType) else None

    def _type_of(self, kind: DataType, parts: Sequence[str], path: str) -> DataType | None:
        """Return the type at the end of a path; NullType for null, None if Spark has to find the type."""
        for position, part in enumerate(parts):
            if isinstance(kind, NullType):
                return kind
            if isinstance(kind, MapType):
                return kind.valueType if position == len(parts) - 1 else None
            if isinstance(kind, ArrayType):
                # The field of an array of structs is an array of the items' fields. Spark has to find its type.
                found = self._type_of(kind.elementType, parts[position:], path)
                return found if isinstance(found, NullType) else None
            if not isinstance(kind, StructType):
                return self._missing(path, f"{'.'.join(parts[:position])} is not a struct, but {kind.simpleString()}")
            names = [name for name in kind.names if name == part] or [
                name for name in kind.names if name.lower() == part.lower()
            ]
            if not names:
                return self._missing(path, f"there are: {alternatives(part, kind.names)}")
            kind = kind[names[0]].dataType
        return kind

    def _missing(self, path: str, why: str) -> DataType:
        if self.missing_is_null:
            return NullType()
        raise DataError(
            f"{self.given.plugin} needs the field {path} in {self.given.name}, which these records do not have; {why}. "
            "Correct the name, or set missing=null if only some records have it",
            name=self.given.given,
        )
