"""Translates an expression of a scripting language to SQL, for messages. Only common comparisons are translated."""

from __future__ import annotations

import re
from typing import Final

_TEXT: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_TERNARY: Final = re.compile(r"^(?P<condition>[^?]+?)\s*\?\s*(?P<then>[^:?]+?)\s*:\s*(?P<otherwise>[^:?]+?)$")
_RULES: Final = (
    (re.compile(r"\?\."), "."),
    (re.compile(r"\s*(?:===|==)\s*null\b"), " IS NULL"),
    (re.compile(r"\s*(?:!==|!=)\s*null\b"), " IS NOT NULL"),
    (re.compile(r"\s*(?:===|==)\s*"), " = "),
    (re.compile(r"\s*(?:!==|!=)\s*"), " <> "),
    (re.compile(r"\s*&&\s*"), " AND "),
    (re.compile(r"\s*\|\|\s*"), " OR "),
    (re.compile(r"!\s*(?=[\w(])"), "NOT "),
    (re.compile(r"\bnull\b"), "NULL"),
    (re.compile(r"\bvalueSchema\b|\bkeySchema\b"), "value"),
)
_PLACE: Final = "\0{}\0"


def translated(expression: str) -> str:
    """Return an expression of Groovy or JavaScript as SQL, if it only has comparisons and a ternary operator."""
    texts: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        texts.append("'" + match[0][1:-1].replace("'", "\\'") + "'")
        return _PLACE.format(len(texts) - 1)

    found = _TEXT.sub(put_aside, expression.strip())
    if ternary := _TERNARY.match(found.replace("?.", ".")):
        parts = (_ruled(ternary[name]) for name in ("condition", "then", "otherwise"))
        found = "if({}, {}, {})".format(*parts)
    else:
        found = _ruled(found)
    for number, text in enumerate(texts):
        found = found.replace(_PLACE.format(number), text)
    return found


def _ruled(text: str) -> str:
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text.strip()
