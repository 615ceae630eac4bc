"""Identifiers in SQL."""

from __future__ import annotations


def quoted(identifier: str) -> str:
    """Return an identifier in double quotes, for SQL."""
    return '"' + identifier.replace('"', '""') + '"'
