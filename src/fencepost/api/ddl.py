"""Parses Spark's DDL for types without a Spark session: `"id BIGINT NOT NULL, tags ARRAY<STRING>"`.

Spark's own parser runs in the JVM, which a worker that only handles small polled batches never starts. The grammar is
Spark's grammar for SQL data types (https://spark.apache.org/docs/latest/sql-ref-datatypes.html), without intervals.

    schema  = columns | type
    columns = column {"," column}
    column  = name [":"] type ["NOT" "NULL"] ["COMMENT" text]
    type    = word ["(" number {"," number} ")"] | "ARRAY<" type ">" | "MAP<" type "," type ">" | "STRUCT<" columns ">"
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Final

from pyspark.sql import types as t

from fencepost.api.errors import ConfigError

_TOKEN: Final = re.compile(r"\s*(?:(\w+)|`((?:[^`]|``)+)`|'((?:[^'\\]|\\.)*)'|([<>(),:]))")

_SIMPLE: Final[dict[str, t.DataType]] = {
    "BOOLEAN": t.BooleanType(),
    "TINYINT": t.ByteType(),
    "BYTE": t.ByteType(),
    "SMALLINT": t.ShortType(),
    "SHORT": t.ShortType(),
    "INT": t.IntegerType(),
    "INTEGER": t.IntegerType(),
    "BIGINT": t.LongType(),
    "LONG": t.LongType(),
    "FLOAT": t.FloatType(),
    "REAL": t.FloatType(),
    "DOUBLE": t.DoubleType(),
    "DATE": t.DateType(),
    "TIMESTAMP": t.TimestampType(),
    "TIMESTAMP_LTZ": t.TimestampType(),
    "TIMESTAMP_NTZ": t.TimestampNTZType(),
    "STRING": t.StringType(),
    "BINARY": t.BinaryType(),
    "VOID": t.NullType(),
}
_DECIMAL: Final = ("DECIMAL", "DEC", "NUMERIC")


@lru_cache(maxsize=256)
def parse_ddl(ddl: str) -> t.DataType:
    """Return the type in `ddl`: a StructType for columns, else the single type.

    Raises ConfigError that shows the text and the place of the error in it, or the name that occurs twice.
    """
    return _Parser(ddl).schema()


def parse_columns(ddl: str) -> t.StructType:
    """Return the columns that `ddl` lists. Raises ConfigError, also if `ddl` is a single type other than a struct."""
    parsed = parse_ddl(ddl)
    if not isinstance(parsed, t.StructType):
        raise ConfigError(f"{ddl!r} is a type, not columns: give names as well, for example 'id {ddl}'")
    return parsed


class _Parser:
    """Parses by recursive descent. Tokens are `(kind, text, position)`; a kind is word, quoted, text, or mark."""

    def __init__(self, ddl: str) -> None:
        self._ddl = ddl
        self._tokens: list[tuple[str, str, int]] = []
        position, end = 0, len(ddl.rstrip())
        while position < end:
            match = _TOKEN.match(ddl, position)
            if match is None:
                raise self._error("a name, a type or a mark", position)
            kind = ("word", "quoted", "text", "mark")[(match.lastindex or 1) - 1]
            self._tokens.append((kind, match[match.lastindex or 1], match.start(match.lastindex or 1)))
            position = match.end()
        self._next = 0

    def schema(self) -> t.DataType:
        parsed = self._type() if self._is_type_alone() else self._columns()
        if self._next < len(self._tokens):
            raise self._error("the end")
        return parsed

    def _is_type_alone(self) -> bool:
        """Return whether the schema is one type: a single word, or a word that is followed by its parameters."""
        kinds = self._tokens[:2]
        if not kinds or kinds[0][0] != "word":
            return False
        return len(kinds) == 1 or kinds[1][1] in ("<", "(")

    def _columns(self) -> t.StructType:
        columns = [self._column()]
        while self._take(","):
            columns.append(self._column())
        names = [column.name for column in columns]
        counts = Counter(names)
        if twice := next((name for name in names if counts[name] > 1), None):
            raise ConfigError(f"{self._ddl!r} has the column {twice!r} twice: give each column a name of its own")
        return t.StructType(columns)

    def _column(self) -> t.StructField:
        kind, name, position = self._token("the name of a column")
        if kind not in ("word", "quoted"):
            raise self._error("the name of a column", position)
        self._take(":")
        data_type = self._type()
        nullable = not self._take("NOT")
        if not nullable and not self._take("NULL"):
            raise self._error("NULL after NOT")
        comment = None
        if self._take("COMMENT"):
            comment = self._token("a comment in single quotes")[1]
        return t.StructField(
            name.replace("``", "`"), data_type, nullable, {"comment": comment} if comment is not None else None
        )

    def _type(self) -> t.DataType:
        _, text, position = self._token("a type")
        word = text.upper()
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word in _DECIMAL:
            numbers = self._numbers(2)
            return t.DecimalType(*(numbers or (10, 0)))
        if word in ("CHAR", "CHARACTER", "VARCHAR") and (numbers := self._numbers(1)):
            return t.VarcharType(*numbers) if word == "VARCHAR" else t.CharType(*numbers)
        if word in ("ARRAY", "MAP", "STRUCT"):
            return self._nested(word)
        raise self._error("a type such as STRING, BIGINT, DOUBLE, TIMESTAMP or ARRAY<STRING>", position)

    def _nested(self, word: str) -> t.DataType:
        self._expect("<")
        parsed: t.DataType
        if word == "ARRAY":
            parsed = t.ArrayType(self._type())
        elif word == "MAP":
            key = self._type()
            self._expect(",")
            parsed = t.MapType(key, self._type())
        else:
            parsed = t.StructType([]) if self._peek(">") else self._columns()
        self._expect(">")
        return parsed

    def _numbers(self, most: int) -> list[int]:
        if not self._take("("):
            return []
        numbers: list[int] = []
        while True:
            _, text, position = self._token("a number")
            if not text.isdecimal() or len(numbers) == most:
                raise self._error("a number" if len(numbers) < most else ")", position)
            numbers.append(int(text))
            if self._take(")"):
                return numbers
            self._expect(",")

    def _peek(self, text: str) -> bool:
        if self._next >= len(self._tokens):
            return False
        kind, found, _ = self._tokens[self._next]
        return kind in ("word", "mark") and found.upper() == text

    def _take(self, text: str) -> bool:
        found = self._peek(text)
        self._next += found
        return found

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._error(text)

    def _token(self, expected: str) -> tuple[str, str, int]:
        if self._next >= len(self._tokens):
            raise self._error(expected)
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _error(self, expected: str, position: int | None = None) -> ConfigError:
        if position is None:
            left = self._tokens[self._next :]
            position = left[0][2] if left else len(self._ddl)
        return ConfigError(
            f"{self._ddl!r} is not a schema in Spark's DDL: expected {expected} at character {position + 1}. "
            "Write columns as 'id BIGINT, name STRING NOT NULL'"
        )
