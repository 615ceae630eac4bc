"""The topics and names of a database's tables, which may have characters that names of topics cannot have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fencepost.api.topic_names import OTHER_CHARACTERS


def topic_part(table: str) -> str:
    """Return a table's part of a topic's name: `_` replaces each character that is not allowed."""
    return OTHER_CHARACTERS.sub("_", table)


def shared_topic(tables: Iterable[tuple[str, str]]) -> str | None:
    """Return which tables would go to one topic, as the beginning of a message; None if each has its own.

    `tables` are pairs of a table's name and its topic.
    """
    by_topic: dict[str, list[str]] = {}
    for table, topic in tables:
        by_topic.setdefault(topic, []).append(table)
    for topic, names in by_topic.items():
        if len(names) > 1:
            return f"The tables {' and '.join(map(repr, names))} would go to one topic, {topic}"
    return None


def same_name(tables: Iterable[str]) -> str | None:
    """Return which tables have one name as SCHEMA.TABLE, as the beginning of a message; None if each has its own."""
    for name, count in Counter(tables).items():
        if count > 1:
            return (
                f"Two tables have the name {name}, since a schema and a table have a dot in their own names. They cannot be "
                "told apart"
            )
    return None
