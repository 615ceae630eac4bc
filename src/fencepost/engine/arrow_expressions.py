"""Catalyst expressions that Arrow evaluates exactly as Spark does, and their values for rows.

    ArrowExpression   a node of Catalyst's optimized tree with its type. If a class, or a type, is not in the table
                      below, there is no ArrowExpression: Spark evaluates the whole chain of transforms instead

An expression in the table refuses no row. If Spark may refuse a row (an overflow, a cast of text), the expression is
not in the table. So it makes no difference that Arrow evaluates the branches of a CASE for all rows, and Spark only for
some rows. If Arrow's own result differs from Spark's, the table follows Spark: NaN equals NaN and is the greatest
number, and null is the third truth value.
https://spark.apache.org/docs/latest/sql-ref-null-semantics.html
https://spark.apache.org/docs/latest/sql-ref-datatypes.html (NaN semantics)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from fencepost.api.fitted_columns import arrow_type

Value = Any
"""An Arrow Array with a value for each row, or a Scalar for all rows."""

Path = tuple[int, ...]
"""The number of a column in the plan, followed by the positions of nested fields."""

_WHOLE: Final = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_FRACTIONS: Final = (t.FloatType, t.DoubleType)
_TIMES: Final = (t.DateType, t.TimestampType, t.TimestampNTZType)
_TEXT: Final = t.StringType()
_REPLACEMENT: Final = "\ufffd"


@dataclass(frozen=True, slots=True)
class ArrowExpression:
    """An expression of a Catalyst class, over columns that are given by their numbers.

    `literal` is the value of a literal.

    `path` is the path of a column, or of a field in a column.
    """

    name: str
    kind: t.DataType
    children: tuple[ArrowExpression, ...] = ()
    path: Path = ()
    literal: Any = None

    def value(self, rows: PlanRows) -> Value:
        """Evaluate the expression for rows. Literals, and expressions of literals only, are scalars."""
        if self.path:
            return rows.column(self.path)
        if self.name == "Literal":
            return pa.scalar(self.literal, arrow_type(self.kind))
        if self.name == "CreateNamedStruct":
            arrays = [rows.filled(child.value(rows)) for child in self.children[1::2]]
            return pa.StructArray.from_arrays(arrays, [child.literal for child in self.children[::2]])
        return _TABLE[self.name].value(self, [child.value(rows) for child in self.children])


class PlanRows:
    """Columns by their numbers, and the fields of columns."""

    def __init__(self, count: int, columns: Mapping[int, pa.Array]) -> None:
        self.count = count
        self._found: dict[Path, pa.Array] = {(number,): column for number, column in columns.items()}
        self._given: PlanRows | None = None
        self._kept: pa.Array | None = None

    def filter(self, kept: Value) -> PlanRows:
        """Return the rows for which a condition is true. A column is copied only when it is requested."""
        mask = self.filled(kept)
        rows = PlanRows(mask.true_count, {})
        rows._given, rows._kept = self, mask
        return rows

    def column(self, path: Path) -> pa.Array:
        """Return a column, or a field in a column. The field is null if a struct around it is null."""
        if path not in self._found:
            if self._given is not None:
                self._found[path] = self._given.column(path).filter(self._kept)
            else:
                self._found[path] = _field(self.column(path[:-1]), path[-1])
        return self._found[path]

    def filled(self, value: Value) -> pa.Array:
        """Return a value as an array that has one item for each row."""
        return pa.repeat(value, self.count) if isinstance(value, pa.Scalar) else value


@dataclass(frozen=True, slots=True)
class _Rule:
    """How Arrow evaluates a class of expressions.

    `kind` returns the type of an expression, None if Spark must evaluate the expression. `value` returns the value.
    """

    kind: Callable[[Sequence[ArrowExpression]], t.DataType | None]
    value: Callable[[ArrowExpression, list[Value]], Value]


def expression_of(name: str, children: Sequence[ArrowExpression]) -> ArrowExpression | None:
    """Return the expression of a Catalyst class over `children`; None if Arrow does not evaluate it as Spark does."""
    if name == "CreateNamedStruct":
        kind = _struct_kind(children)
    else:
        kind = _TABLE[name].kind(children) if name in _TABLE else None
    return None if kind is None else ArrowExpression(name, kind, tuple(children))


def column_of(number: int, kind: t.DataType) -> ArrowExpression:
    """Return the expression for a column, given the column's number."""
    return ArrowExpression("AttributeReference", kind, path=(number,))


def field_of(struct: ArrowExpression, ordinal: int) -> ArrowExpression | None:
    """Return the expression for a field in a column."""
    if not struct.path or not isinstance(struct.kind, t.StructType):
        return None
    return ArrowExpression("GetStructField", struct.kind.fields[ordinal].dataType, path=(*struct.path, ordinal))


def literal_of(text: str | None, kind: t.DataType) -> ArrowExpression | None:
    """Return the expression for a literal, given its text in Catalyst's JSON."""
    read = next((read for kinds, read in _LITERALS if isinstance(kind, kinds)), None)
    if read is None or (isinstance(kind, t.StringType) and kind != _TEXT):
        return None
    if text is not None and _REPLACEMENT in text:
        # In place of bytes that are not UTF-8, the JVM shows this character. The original bytes are unknown.
        return None
    return ArrowExpression("Literal", kind, literal=None if text is None else read(text))


def cast_of(child: ArrowExpression, kind: t.DataType) -> ArrowExpression | None:
    """Return the expression for a cast that keeps the value, or makes a text that is the same in Arrow and Spark."""
    given = child.kind
    wider = (
        isinstance(given, _WHOLE) and isinstance(kind, _WHOLE) and _WHOLE.index(type(given)) < _WHOLE.index(type(kind))
    )
    to_fraction = isinstance(given, (*_WHOLE, t.FloatType)) and isinstance(kind, t.DoubleType)
    to_text = isinstance(given, (*_WHOLE, t.BooleanType)) and kind == _TEXT
    return ArrowExpression("Cast", kind, (child,)) if wider or to_fraction or to_text else None


def upper_of(child: ArrowExpression, exceptions: Mapping[str, str]) -> ArrowExpression | None:
    """Return the expression for upper case.

    `exceptions` maps characters to Spark's upper case, where it differs from Python's.
    """
    return ArrowExpression("Upper", _TEXT, (child,), literal=exceptions) if child.kind == _TEXT else None


def _field(struct: pa.Array, ordinal: int) -> pa.Array:
    return pc.struct_field(struct, [ordinal]) if struct.null_count else struct.field(ordinal)


_LITERALS: Final[Sequence[tuple[Any, Callable[[str], Any]]]] = (
    (_WHOLE, int),
    (t.DoubleType, float),
    (t.BooleanType, lambda text: text == "true"),
    (t.StringType, str),
    (t.DecimalType, Decimal),
)


def _same(children: Sequence[ArrowExpression], *kinds: type[t.DataType]) -> bool:
    """Whether all children have the same type, the type is of one of these classes, and texts have no collation."""
    first = children[0].kind
    plain = not isinstance(first, t.StringType) or first == _TEXT
    return plain and isinstance(first, kinds) and all(child.kind == first for child in children)


def _of(result: t.DataType, *kinds: type[t.DataType]) -> Callable[[Sequence[ArrowExpression]], t.DataType | None]:
    return lambda children: result if _same(children, *kinds) else None


def _own(*kinds: type[t.DataType]) -> Callable[[Sequence[ArrowExpression]], t.DataType | None]:
    return lambda children: children[0].kind if _same(children, *kinds) else None


_ORDERED: Final = (*_WHOLE, *_FRACTIONS, *_TIMES, t.StringType, t.DecimalType)
_COMPARED: Final = (*_ORDERED, t.BooleanType)
_CHOSEN: Final = (*_COMPARED, t.BinaryType, t.StructType)


def _is_fraction(expression: ArrowExpression) -> bool:
    return isinstance(expression.children[0].kind, _FRACTIONS)


def _equal(expression: ArrowExpression, values: list[Value]) -> Value:
    equal = pc.equal(*values)
    return pc.or_(equal, pc.and_(*map(pc.is_nan, values))) if _is_fraction(expression) else equal


def _less(expression: ArrowExpression, values: list[Value]) -> Value:
    less = pc.less(*values)
    if not _is_fraction(expression):
        return less
    return pc.or_(less, pc.and_not(pc.is_nan(values[1]), pc.is_nan(values[0])))


def _swapped(rule: Callable[[ArrowExpression, list[Value]], Value]) -> Callable[[ArrowExpression, list[Value]], Value]:
    return lambda expression, values: rule(expression, values[::-1])


def _inverted(rule: Callable[[ArrowExpression, list[Value]], Value]) -> Callable[[ArrowExpression, list[Value]], Value]:
    return lambda expression, values: pc.invert(rule(expression, values))


def _null_safe(expression: ArrowExpression, values: list[Value]) -> Value:
    both_null = pc.and_(*map(pc.is_null, values))
    return pc.or_(pc.fill_null(_equal(expression, values), False), both_null)


def _in(_: ArrowExpression, values: list[Value]) -> Value:
    given, *members = values
    found = pc.is_in(given, pa.array([member.as_py() for member in members], given.type))
    return pc.if_else(pc.is_valid(given), found, pa.scalar(None, pa.bool_()))


def _in_kind(children: Sequence[ArrowExpression]) -> t.DataType | None:
    literals = all(child.name == "Literal" and child.literal is not None for child in children[1:])
    return t.BooleanType() if literals and _same(children, *_WHOLE, t.StringType, t.BooleanType) else None


def _case(_: ArrowExpression, values: list[Value]) -> Value:
    """Choose, for each row, the value after the first true condition; without one, the last value."""
    *pairs, result = values if len(values) % 2 else [*values, pa.scalar(None, values[1].type)]
    for position in range(len(pairs) - 2, -1, -2):
        result = pc.if_else(pc.fill_null(pairs[position], False), pairs[position + 1], result)
    return result


def _case_kind(children: Sequence[ArrowExpression]) -> t.DataType | None:
    values = [*children[1::2], *(children[-1:] if len(children) % 2 else ())]
    conditions = children[: len(children) - len(children) % 2 : 2]
    return values[0].kind if _same(values, *_CHOSEN) and _same(conditions, t.BooleanType) else None


def _divisor(children: Sequence[ArrowExpression], *kinds: type[t.DataType]) -> t.DataType | None:
    """The type of a division by a literal, None if Spark may refuse a row."""
    divisor = children[1]
    harmless = divisor.name == "Literal" and divisor.literal not in (None, 0, -1)
    return children[0].kind if harmless and _same(children, *kinds) else None


def _remainder(_: ArrowExpression, values: list[Value]) -> Value:
    """The remainder with the sign of the dividend. Arrow's division cuts the fraction off, as Spark's does."""
    given, divisor = values
    return pc.subtract(given, pc.multiply(pc.divide(given, divisor), divisor))


def _pattern_kind(children: Sequence[ArrowExpression]) -> t.DataType | None:
    pattern = children[1]
    literal = pattern.name == "Literal" and pattern.literal is not None
    return t.BooleanType() if literal and _same(children, t.StringType) else None


def _search(find: Callable[..., Value]) -> Callable[[ArrowExpression, list[Value]], Value]:
    return lambda _, values: find(values[0], pattern=values[1].as_py())


def _struct_kind(children: Sequence[ArrowExpression]) -> t.DataType | None:
    names, values = children[::2], children[1::2]
    if not all(name.name == "Literal" for name in names):
        return None
    return t.StructType([t.StructField(name.literal, value.kind) for name, value in zip(names, values, strict=True)])


def _upper(expression: ArrowExpression, values: list[Value]) -> Value:
    (texts,) = values
    if isinstance(texts, pa.Scalar):
        return _upper(expression, [pa.repeat(texts, 1)])[0]
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return pc.ascii_upper(texts)
    exceptions = expression.literal
    encoded = texts.dictionary_encode()
    # For bytes that are not UTF-8, Arrow's path and Spark produce the same replacement characters.
    given = [text.decode(errors="replace") for text in encoded.dictionary.cast(pa.binary()).to_pylist()]
    upper = [
        text.upper() if exceptions.keys().isdisjoint(text) else "".join(exceptions.get(c) or c.upper() for c in text)
        for text in given
    ]
    return pa.array(upper, pa.string()).take(encoded.indices)


_BOOLEAN: Final = t.BooleanType()
_TABLE: Final[Mapping[str, _Rule]] = {
    "EqualTo": _Rule(_of(_BOOLEAN, *_COMPARED), _equal),
    "EqualNullSafe": _Rule(_of(_BOOLEAN, *_COMPARED), _null_safe),
    "LessThan": _Rule(_of(_BOOLEAN, *_ORDERED), _less),
    "GreaterThan": _Rule(_of(_BOOLEAN, *_ORDERED), _swapped(_less)),
    "LessThanOrEqual": _Rule(_of(_BOOLEAN, *_ORDERED), _inverted(_swapped(_less))),
    "GreaterThanOrEqual": _Rule(_of(_BOOLEAN, *_ORDERED), _inverted(_less)),
    "And": _Rule(_of(_BOOLEAN, t.BooleanType), lambda _, values: pc.and_kleene(*values)),
    "Or": _Rule(_of(_BOOLEAN, t.BooleanType), lambda _, values: pc.or_kleene(*values)),
    "Not": _Rule(_of(_BOOLEAN, t.BooleanType), lambda _, values: pc.invert(*values)),
    "IsNull": _Rule(lambda _: _BOOLEAN, lambda _, values: pc.is_null(*values)),
    "IsNotNull": _Rule(lambda _: _BOOLEAN, lambda _, values: pc.is_valid(*values)),
    "IsNaN": _Rule(_of(_BOOLEAN, *_FRACTIONS), lambda _, values: pc.fill_null(pc.is_nan(*values), False)),
    "In": _Rule(_in_kind, _in),
    "If": _Rule(_case_kind, _case),
    "CaseWhen": _Rule(_case_kind, _case),
    "Coalesce": _Rule(_own(*_COMPARED, t.BinaryType), lambda _, values: reduce(pc.coalesce, values)),
    "Add": _Rule(_own(*_FRACTIONS), lambda _, values: pc.add(*values)),
    "Subtract": _Rule(_own(*_FRACTIONS), lambda _, values: pc.subtract(*values)),
    "Multiply": _Rule(_own(*_FRACTIONS), lambda _, values: pc.multiply(*values)),
    "Divide": _Rule(lambda children: _divisor(children, t.DoubleType), lambda _, values: pc.divide(*values)),
    "Remainder": _Rule(lambda children: _divisor(children, *_WHOLE), _remainder),
    "Cast": _Rule(lambda _: None, lambda cast, values: pc.cast(*values, arrow_type(cast.kind), safe=False)),
    "Upper": _Rule(lambda _: None, _upper),
    "Concat": _Rule(
        _own(t.StringType), lambda _, values: pc.binary_join_element_wise(*values, "", null_handling="emit_null")
    ),
    "StartsWith": _Rule(_pattern_kind, _search(pc.starts_with)),
    "EndsWith": _Rule(_pattern_kind, _search(pc.ends_with)),
    "Contains": _Rule(_pattern_kind, _search(pc.match_substring)),
}  # fmt: skip
