"""Names in Spark's SQL and DDL."""

from __future__ import annotations


def backticked(name: str) -> str:
    """Return a column's or field's name as one part of a name in Spark's SQL and DDL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
