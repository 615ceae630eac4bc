r"""Splits the text of a PostgreSQL array: `{1,NULL,"a \"quoted\" one"}`.

https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO
"""

from __future__ import annotations

import re
from typing import Final

# An item, quoted or not, followed by a comma or the end of the text.
_ITEM: Final = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|([^"{},\\]+))(,|$)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def split_array(text: str) -> list[str | None]:
    """Return the items of a one-dimensional array. Raises ValueError, also for an array of several dimensions."""
    if text.startswith("["):
        # An array whose first index is not 1: `[0:2]={1,2,3}`.
        text = text.partition("=")[2]
    inner = text[1:-1]
    if inner.startswith("{"):
        raise ValueError("it is an array of several dimensions")
    items: list[str | None] = []
    position = 0
    while position < len(inner):
        match = _ITEM.match(inner, position)
        if match is None:
            raise ValueError("it is not an array of items separated by commas")
        quoted, bare, _ = match.groups()
        if quoted is not None:
            items.append(_ESCAPED.sub(r"\1", quoted))
        else:
            items.append(None if bare == "NULL" else bare)
        position = match.end()
    return items
