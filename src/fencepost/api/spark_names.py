"""Names in Spark's SQL and DDL."""

from __future__ import annotations


def backticked(name: str) -> str:
    """Return the name of a column or field, quoted as one part of a name in Spark's SQL and DDL."""
    return "`" + name.replace("`", "``") + "`"
