"""Properties of Debezium or of fencepost's other sources that PostgresSource refuses.

These properties would change the rows, columns, values or topics, so ignoring them would surprise users. For other
unknown properties the worker logs a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencepost.api.errors import ConfigError

_TABLES: Final = r"use table.include.list or table.exclude.list, for example table.include.list=sales\..*"
_MASK: Final = "leave the columns out with column.exclude.list, or change them with a transform"
_SIGNALS: Final = "signals are rows of the table signal.data.collection"
_INSTEAD: Final = {
    "column.include.list": "use column.exclude.list; (?!...) excludes all but some",
    "converters": "change values with a transform",
    "headers.columns": "a delete does not have its row's columns; use ExtractNewRecordState and HeaderFrom",
    "key.columns": "use message.key.columns, which names the columns for each table",
    "replica.identity.autoset.values": "run ALTER TABLE ... REPLICA IDENTITY",
    "schema.exclude.list": _TABLES,
    "schema.include.list": _TABLES,
    "slot.drop.on.stop": "drop the slot with pg_drop_replication_slot once the connector is deleted",
    "snapshot.include.collection.list": "the snapshot reads all captured tables; use snapshot.mode=no_data for none",
    "snapshot.select.statement.overrides": "the snapshot reads what the publication has: give it row filters",
    "timestamp.column": "a record's timestamp is when it is written; source.ts_ms is when the change was committed",
    "topic.column": "a delete does not have its row's columns; all changes of a table go to its topic",
    "topic.delimiter": "topics are PREFIX.SCHEMA.TABLE; use a transform such as RegexRouter",
    "topic.naming.strategy": "topics are PREFIX.SCHEMA.TABLE; use a transform such as RegexRouter",
}
_PREFIXES: Final = {"column.mask.": _MASK, "column.truncate.": _MASK, "signal.": _SIGNALS}
_SUPPORTED: Final = ("signal.data.collection", "signal.enabled.channels")
# For each of these properties, the only value that is accepted, because it matches the connector's behaviour.
_ONLY: Final = {
    "binary.handling.mode": ("bytes", "bytea is written as bytes, which JsonConverter writes in base64"),
    "hstore.handling.mode": ("", "an hstore is written as PostgreSQL's own text for it"),
    "read.only": ("false", "each chunk of an incremental snapshot writes a logical message; no table is written to"),
    "skip.messages.without.change": ("false", "each update is an event"),
}


def refuse_unsupported(config: Mapping[str, str]) -> None:
    """Raise ConfigError, with advice, for the first property that is not supported."""
    for name in sorted(config):
        prefixed = next((instead for prefix, instead in _PREFIXES.items() if name.startswith(prefix)), None)
        if name in _SUPPORTED:
            continue
        instead = _INSTEAD.get(name, prefixed)
        if instead is not None:
            raise ConfigError(f"The property {name} is not supported: {instead}", name=name)
        if name in _ONLY and config[name].strip().lower() != _ONLY[name][0]:
            raise ConfigError(
                f"The value {config[name]} of the property {name} is not supported: {_ONLY[name][1]}; remove the property",
                name=name,
            )
