"""The topics and names of a database's tables. A table's name may have characters that topic names cannot have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fencepost.api.topic_names import OTHER_CHARACTERS


def topic_part(table: str) -> str:
    """Return the part of a topic name that stands for a table: `_` replaces each character that is not allowed."""
    return OTHER_CHARACTERS.sub("_", table)


def shared_topic(tables: Iterable[tuple[str, str]]) -> str | None:
    """Say which tables would share a topic, as the start of a message; None if each table has its own topic.

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
    """Say which name in the form SCHEMA.TABLE two tables share, as the start of a message; None if all names differ."""
    for name, count in Counter(tables).items():
        if count > 1:
            return (
                f"Two tables have the name {name}, since a schema and a table have a dot in their own names. They cannot be "
                "told apart"
            )
    return None
