"""Checks an expression of Spark's SQL without a JVM, only by its words.

A worker without a Spark session validates configurations in this way. Within the limits below, it refuses no expression
that `sql_parser` would accept. Spark's parser finds all other errors: immediately if there is a session, else when the
first records arrive.
https://spark.apache.org/docs/latest/sql-ref-literals.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from fencepost.transforms.sql_functions import ALLOWED, NONDETERMINISTIC

LONGEST: Final = 32_768
"""The maximum number of characters of an expression. Checking a longer expression would take seconds."""

DEEPEST: Final = 200
"""The maximum depth of nested parts of an expression. Each level needs room on the stacks of Python and the JVM."""

DEEPEST_TYPE: Final = 32
"""The maximum depth of nested types, as in ARRAY<ARRAY<INT>>.

For some hundreds of levels, Spark's parser takes minutes.
"""

_TOKEN: Final = re.compile(
    r"""(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|--[^\n]*|/\*.*?\*/)
    |(?P<word>[^\W\d]\w*|`(?:[^`]|``)*`)|(?P<open>[(\[])|(?P<close>[)\]])|(?P<unclosed>['"`]|/\*)|(?P<dot>\.)|\S""",
    re.VERBOSE | re.DOTALL,
)
_PAIRS: Final = {"(": ")", "[": "]"}
_TYPES: Final = ("array", "map", "struct")
_ALSO_SYNTAX: Final = frozenset(
    {"any", "some", "cast", "try_cast", "timestamp_add", "timestamp_diff", "col", "lit", "expr"}
)
"""Names of pyspark's functions that mean nothing, or something else, before a parenthesis in SQL."""


def why_refused(text: str, *, nondeterministic: bool) -> str | None:
    """Return why an expression will be refused; None if its words do not show a reason."""
    if len(text) > LONGEST:
        return f"it has {len(text)} characters, and {LONGEST} are allowed"
    if (why := why_type_refused(text)) is not None:
        return why
    closing: list[str] = []
    before: tuple[str | None, str] = (None, "")
    for kind, shown in _tokens(text):
        why = _refused_bracket(kind, shown, closing)
        if before[0] == "word" and shown == "(":
            why = why or _refused_function(before[1], nondeterministic=nondeterministic)
        elif before == ("open", "(") and kind == "word" and shown.lower() == "select":
            why = "a sub-query is not allowed: an expression sees the columns of its record alone"
        if why:
            return why
        before = (kind, shown)
    return f"{len(closing)} of its brackets are not closed" if closing else None


def why_type_refused(text: str) -> str | None:
    """Return why the types in an expression or a schema will be refused."""
    depth, before = 0, ""
    for _, shown in _tokens(text):
        if shown == "<" and before.lower() in _TYPES:
            depth += 1
            if depth > DEEPEST_TYPE:
                return f"it has types that are nested more than {DEEPEST_TYPE} deep"
        elif shown == ">":
            depth = max(0, depth - 1)
        before = shown
    return None


def _refused_bracket(kind: str | None, shown: str, closing: list[str]) -> str | None:
    """Return why quotes or brackets do not match. `closing` are the brackets that must still be closed."""
    match kind:
        case "unclosed":
            return f"what {shown} begins is not closed"
        case "open":
            closing.append(_PAIRS[shown])
            return f"it is nested more than {DEEPEST} deep" if len(closing) > DEEPEST else None
        case "close" if not closing or closing.pop() != shown:
            return f"there is a {shown} that closes nothing"
    return None


def _tokens(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield the tokens without comments. A name after a dot is not a separate word."""
    after_dot = False
    for match in _TOKEN.finditer(text):
        if match[0].startswith(("--", "/*")) and match.lastgroup == "text":
            continue
        yield (None if after_dot and match.lastgroup == "word" else match.lastgroup), match[0]
        after_dot = match.lastgroup == "dot"


def _refused_function(word: str, nondeterministic: bool) -> str | None:
    name = word.strip("`").lower()
    if name in NONDETERMINISTIC and not nondeterministic:
        return (
            f"the function {name} gives another result each time that a batch is processed. With "
            "allow.nondeterministic=true that is accepted"
        )
    if name in _refused_names():
        return (
            f"the function {name} is not allowed: only Spark's functions of single rows whose result depends on their "
            "arguments alone are"
        )
    return None


@lru_cache(maxsize=1)
def _refused_names() -> frozenset[str]:
    from pyspark.sql import functions  # noqa: PLC0415 - it takes a while, and most connectors have no expressions

    return frozenset(functions.__all__) - ALLOWED - NONDETERMINISTIC - _ALSO_SYNTAX
