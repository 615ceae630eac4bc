"""The properties of PostgresSource and their checks, with Debezium's names where they mean the same."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.config.validators import at_least, not_blank, one_of, python_regex
from fencepost.connectors.postgres.types.temporal import TimePrecision
from fencepost.connectors.postgres.types.types import DecimalHandling, IntervalHandling

_T, _I = ConfigDef.Type, ConfigDef.Importance


class SnapshotMode(StrEnum):
    """The values of `snapshot.mode`: how a connector without offsets starts. NEVER is an old name of NO_DATA."""

    INITIAL = "initial"
    NO_DATA = "no_data"
    NEVER = "never"


# Debezium's other values, and what to do instead.
_OTHER_MODES: Final = {
    "always": "delete the connector's offsets and the slot before a start that is to read all rows again",
    "initial_only": "use initial, and delete the connector once its lag is 0",
    "when_needed": "use initial: a position that is lost fails the task and says how to resync",
    "configuration_based": "use initial or no_data",
    "custom": "use initial or no_data",
}


class Autocreate(StrEnum):
    """The values of `publication.autocreate.mode`: how a missing publication is created."""

    ALL_TABLES = "all_tables"
    DISABLED = "disabled"
    FILTERED = "filtered"


def _patterns(name: str, value: Any) -> None:
    for pattern in value or ():
        python_regex(name, pattern, re.IGNORECASE)


def _snapshot_mode(name: str, value: Any) -> None:
    mode = str(value).lower()
    if mode in _OTHER_MODES:
        raise ConfigError(f"The value {mode} of the property {name} is not supported: {_OTHER_MODES[mode]}", name=name)
    one_of([str(mode) for mode in SnapshotMode])(name, value)


def _time_precision(name: str, value: Any) -> None:
    if str(value).lower() == "nanoseconds":
        raise ConfigError(
            f"The value nanoseconds of the property {name} is not supported: PostgreSQL has microseconds, and nanoseconds "
            "since 1970 end in 2262; use microseconds",
            name=name,
        )
    one_of([str(mode) for mode in TimePrecision])(name, value)


def _key_columns(name: str, value: Any) -> None:
    for part in key_parts(value):
        table, colon, columns = part.rpartition(":")
        if not colon or not table.strip() or not all(column.strip() for column in columns.split(",")):
            raise ConfigError(
                f"Invalid value {part!r} for the property {name}: it has the form TABLE:COLUMN,COLUMN;TABLE:COLUMN, where "
                "TABLE is a regular expression for SCHEMA.TABLE",
                name=name,
            )
        _patterns(name, [table.strip()])


def key_parts(value: str | None) -> list[str]:
    """Return the parts of `message.key.columns`, each as TABLE:COLUMN,COLUMN."""
    return [part.strip() for part in (value or "").split(";") if part.strip()]


def _slot_name(name: str, value: Any) -> None:
    if not re.fullmatch(r"[a-z0-9_]{1,63}", value or ""):
        raise ConfigError(
            f"Invalid value {value!r} for the property {name}: a slot's name has 1 to 63 lower-case letters, digits and "
            "underscores",
            name=name,
        )


def _prefix(name: str, value: Any) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", value or ""):
        raise ConfigError(
            f"Invalid value {value!r} for the property {name}: topics begin with it, so it has letters, digits, dots, "
            "underscores and hyphens",
            name=name,
        )


def _signal_table(name: str, value: Any) -> None:
    if value is not None and not re.fullmatch(r"[^.]+\.[^.]+", value):
        raise ConfigError(f"Invalid value {value!r} for the property {name}: it has the form SCHEMA.TABLE", name=name)


def _channels(name: str, value: Any) -> None:
    if others := [channel for channel in value or () if channel.lower() != "source"]:
        raise ConfigError(
            f"The value {others[0]} of the property {name} is not supported: signals are rows of a table, which is source",
            name=name,
        )


def _operations(name: str, value: Any) -> None:
    if unknown := [letter for letter in value or () if letter not in ("c", "u", "d", "t", "none")]:
        raise ConfigError(
            f"Invalid value {unknown[0]!r} for the property {name}: it lists c, u, d and t, or is none", name=name
        )


DEFINITIONS: Final = (
    ConfigDef()
    .define(
        "database.hostname", _T.STRING, ConfigDef.NO_DEFAULT, _I.HIGH, "The host of the PostgreSQL server.",
        validator=not_blank,
    )
    .define("database.port", _T.INT, 5432, _I.HIGH, "The port of the server.", validator=at_least(1))
    .define(
        "database.user", _T.STRING, ConfigDef.NO_DEFAULT, _I.HIGH,
        "The user, who needs LOGIN, REPLICATION and SELECT on the captured tables.", validator=not_blank,
    )
    .define("database.password", _T.PASSWORD, None, _I.HIGH, "The user's password.")
    .define(
        "database.dbname", _T.STRING, ConfigDef.NO_DEFAULT, _I.HIGH, "The database to capture.", validator=not_blank
    )
    .define(
        "database.sslmode", _T.STRING, "prefer", _I.MEDIUM,
        "Whether the connection uses TLS, as libpq's sslmode: disable, allow, prefer, require, verify-ca or verify-full.",
        validator=one_of(["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]),
    )
    .define("database.sslrootcert", _T.STRING, None, _I.MEDIUM, "The file with the certificates to verify the server.")
    .define("database.sslcert", _T.STRING, None, _I.MEDIUM, "The file with the client's certificate.")
    .define("database.sslkey", _T.STRING, None, _I.MEDIUM, "The file with the client's private key.")
    .define("database.sslpassword", _T.PASSWORD, None, _I.MEDIUM, "The password of the client's private key.")
    .define(
        "topic.prefix", _T.STRING, ConfigDef.NO_DEFAULT, _I.HIGH,
        "The name of the server in topics and events: changes of public.orders go to the topic PREFIX.public.orders. "
        "Offsets are kept under it, so it must not change, and no other connector may have it.",
        validator=_prefix,
    )
    .define(
        "plugin.name", _T.STRING, "pgoutput", _I.MEDIUM, "The server's output plugin; pgoutput is the one supported.",
        validator=one_of(["pgoutput"]),
    )
    .define(
        "slot.name", _T.STRING, "debezium", _I.MEDIUM, "The replication slot. It is created with the first snapshot.",
        validator=_slot_name,
    )
    .define(
        "slot.failover", _T.BOOLEAN, False, _I.LOW,
        "Whether the slot is created as one that is synchronized to standbys, so that it is there after a failover; "
        "PostgreSQL 17 or newer.",
    )
    .define(
        "publication.name", _T.STRING, "dbz_publication", _I.MEDIUM, "The publication that says what the stream has.",
        validator=not_blank,
    )
    .define(
        "publication.autocreate.mode", _T.STRING, "all_tables", _I.MEDIUM,
        "What is done about a missing publication: all_tables creates one for all tables, which needs a superuser; filtered "
        "creates one for the captured tables, and adds tables to it later; disabled fails.",
        validator=one_of([str(mode) for mode in Autocreate]),
    )
    .define(
        "table.include.list", _T.LIST, "", _I.HIGH,
        "Regular expressions for the tables to capture, each matched with the whole of SCHEMA.TABLE. By default all.",
        validator=_patterns,
    )
    .define(
        "table.exclude.list", _T.LIST, "", _I.MEDIUM,
        "Regular expressions for tables not to capture. Not allowed together with table.include.list.",
        validator=_patterns,
    )
    .define(
        "column.exclude.list", _T.LIST, "", _I.MEDIUM,
        "Regular expressions for columns to leave out, each matched with the whole of SCHEMA.TABLE.COLUMN.",
        validator=_patterns,
    )
    .define(
        "snapshot.mode", _T.STRING, "initial", _I.MEDIUM,
        "What a connector without offsets begins with: initial reads all rows once; no_data, also called never, begins "
        "with the stream.",
        validator=_snapshot_mode,
    )
    .define(
        "message.key.columns", _T.STRING, None, _I.MEDIUM,
        "Columns that are the key of a table's events instead of its replica identity, as TABLE:COLUMN,COLUMN;TABLE:COLUMN, "
        "where TABLE is a regular expression matched with the whole of SCHEMA.TABLE; the first that matches counts. The "
        "columns must be part of the replica identity, or that is FULL: otherwise deletes would have no key.",
        validator=_key_columns,
    )
    .define(
        "message.prefix.include.list", _T.LIST, "", _I.LOW,
        "Regular expressions for the prefixes of logical messages (pg_logical_emit_message) to capture, each matched with "
        "the whole prefix. By default all. Their topic is topic.prefix and .message; PostgreSQL 14 or newer.",
        validator=_patterns,
    )
    .define(
        "message.prefix.exclude.list", _T.LIST, "", _I.LOW,
        "Regular expressions for the prefixes of logical messages not to capture. Not allowed together with "
        "message.prefix.include.list.",
        validator=_patterns,
    )
    .define(
        "heartbeat.interval.ms", _T.LONG, 0, _I.MEDIUM,
        "After how many milliseconds a record with the time is written to the topic of heartbeats; 0 for none. The slot "
        "advances without it.",
        validator=at_least(0),
    )
    .define(
        "heartbeat.action.query", _T.STRING, None, _I.LOW,
        "A statement to run in the database once in each heartbeat.interval.ms. It has a quarter of that, at most 5 s. One "
        "that fails is logged, and run again the next time.",
        validator=not_blank,
    )
    .define(
        "topic.heartbeat.prefix", _T.STRING, "__debezium-heartbeat", _I.LOW,
        "The topic of heartbeats is this, a dot and topic.prefix.", validator=_prefix,
    )
    .define(
        "signal.data.collection", _T.STRING, None, _I.LOW,
        "The table, as SCHEMA.TABLE, whose inserted rows are signals, such as for an incremental snapshot. It has three "
        "columns: id, type and data. Its events go to a topic if it is captured.",
        validator=_signal_table,
    )
    .define(
        "signal.enabled.channels", _T.LIST, "source", _I.LOW,
        "Where signals come from: source, the table, is the one supported.", validator=_channels,
    )
    .define(
        "incremental.snapshot.chunk.size", _T.INT, 1024, _I.LOW,
        "How many rows an incremental snapshot reads at once. They are kept in memory.", validator=at_least(1),
    )
    .define(
        "tombstones.on.delete", _T.BOOLEAN, True, _I.MEDIUM,
        "Whether a record with the key and no value follows each delete, so that compaction removes the key.",
    )
    .define(
        "skipped.operations", _T.LIST, "none", _I.LOW,
        "Operations without events: c (insert), u (update), d (delete), t (truncate), or none.", validator=_operations,
    )
    .define(
        "decimal.handling.mode", _T.STRING, "precise", _I.MEDIUM,
        "How numeric is represented: precise (decimals, or a struct where the scale varies), double or string.",
        validator=one_of([str(mode) for mode in DecimalHandling]),
    )
    .define(
        "interval.handling.mode", _T.STRING, "string", _I.LOW,
        "How intervals are represented: string in ISO 8601, exactly; numeric in microseconds, a month as 30.4375 days.",
        validator=one_of([str(mode) for mode in IntervalHandling]),
    )
    .define(
        "time.precision.mode", _T.STRING, "adaptive", _I.LOW,
        "How date, time and timestamp are represented: adaptive in milliseconds if the column has up to 3 digits of a "
        "second, else in microseconds; adaptive_time_microseconds likewise, but time always in microseconds; microseconds "
        "always so; connect as Connect's logical types, in milliseconds; isostring as texts.",
        validator=_time_precision,
    )
    .define(
        "unavailable.value.placeholder", _T.STRING, "__debezium_unavailable_value", _I.LOW,
        "Stands for a large value that an update left unchanged, and that the server therefore did not send.",
    )
    .define(
        "provide.transaction.metadata", _T.BOOLEAN, False, _I.LOW,
        "Whether each change tells its transaction and its place there, and BEGIN and END of each transaction, with the "
        "number of its events, go to the topic of transactions.",
    )
    .define(
        "topic.transaction", _T.STRING, "transaction", _I.LOW,
        "The topic of transactions is topic.prefix, a dot and this.", validator=_prefix,
    )
    .define(
        "transaction.split.interval.ms", _T.LONG, None, _I.LOW,
        "After how many milliseconds a source transaction that is still being read may be committed in parts. Unset: "
        "never; one that does not fit transaction.timeout.ms fails the task.",
        validator=at_least(1),
    )
)  # fmt: skip
