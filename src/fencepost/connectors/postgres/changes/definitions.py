"""The properties of PostgresSource and their checks. Names are Debezium's if the meaning is the same."""

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
    """The values of `snapshot.mode`: how a connector without offsets starts. NEVER is an old name for NO_DATA."""

    INITIAL = "initial"
    NO_DATA = "no_data"
    NEVER = "never"


# The values of Debezium's `snapshot.mode` that are not supported, each with advice.
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
        "Whether the connection uses TLS, by the values of libpq's sslmode: disable, allow, prefer, require, "
        "verify-ca or verify-full.",
        validator=one_of(["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]),
    )
    .define(
        "database.sslrootcert", _T.STRING, None, _I.MEDIUM,
        "The file with the CA certificates that verify the server's certificate.",
    )
    .define("database.sslcert", _T.STRING, None, _I.MEDIUM, "The file with the client's certificate.")
    .define("database.sslkey", _T.STRING, None, _I.MEDIUM, "The file with the client's private key.")
    .define("database.sslpassword", _T.PASSWORD, None, _I.MEDIUM, "The password of the client's private key.")
    .define(
        "topic.prefix", _T.STRING, ConfigDef.NO_DEFAULT, _I.HIGH,
        "A name for the database in topics and events: changes of public.orders go to the topic PREFIX.public.orders. "
        "Source offsets are stored under it, so it must not change, and no other connector may have the same.",
        validator=_prefix,
    )
    .define(
        "plugin.name", _T.STRING, "pgoutput", _I.MEDIUM,
        "The server's logical decoding plugin; only pgoutput is supported.",
        validator=one_of(["pgoutput"]),
    )
    .define(
        "slot.name", _T.STRING, "debezium", _I.MEDIUM,
        "The name of the replication slot, which is created with the first snapshot.",
        validator=_slot_name,
    )
    .define(
        "slot.failover", _T.BOOLEAN, False, _I.LOW,
        "Whether the replication slot is created as a failover slot, which PostgreSQL synchronizes to standbys, so "
        "that it exists after a failover. Requires PostgreSQL 17.",
    )
    .define(
        "publication.name", _T.STRING, "dbz_publication", _I.MEDIUM,
        "The publication whose changes the connector streams.",
        validator=not_blank,
    )
    .define(
        "publication.autocreate.mode", _T.STRING, "all_tables", _I.MEDIUM,
        "What happens if the publication is missing. all_tables: a publication for all tables is created, which needs "
        "a superuser. filtered: a publication for the captured tables is created, and tables are added to it later. "
        "disabled: the connector fails.",
        validator=one_of([str(mode) for mode in Autocreate]),
    )
    .define(
        "table.include.list", _T.LIST, "", _I.HIGH,
        "Regular expressions for the tables to capture, each matched with the whole of SCHEMA.TABLE. Empty: all "
        "tables.",
        validator=_patterns,
    )
    .define(
        "table.exclude.list", _T.LIST, "", _I.MEDIUM,
        "Regular expressions for the tables not to capture, each matched with the whole of SCHEMA.TABLE. Not allowed "
        "together with table.include.list.",
        validator=_patterns,
    )
    .define(
        "column.exclude.list", _T.LIST, "", _I.MEDIUM,
        "Regular expressions for columns to leave out, each matched with the whole of SCHEMA.TABLE.COLUMN.",
        validator=_patterns,
    )
    .define(
        "snapshot.mode", _T.STRING, "initial", _I.MEDIUM,
        "How a connector without source offsets begins. initial: with a snapshot of all rows, and then with the "
        "stream of changes. no_data, also called never: with the stream of changes.",
        validator=_snapshot_mode,
    )
    .define(
        "message.key.columns", _T.STRING, None, _I.MEDIUM,
        "The columns that become the key of a table's events, instead of the columns of its replica identity. The "
        "form is TABLE:COLUMN,COLUMN;TABLE:COLUMN, where TABLE is a regular expression matched with the whole of "
        "SCHEMA.TABLE; the first that matches counts. The columns must belong to the replica identity, or the table "
        "must have REPLICA IDENTITY FULL: otherwise deletes would have no key.",
        validator=_key_columns,
    )
    .define(
        "message.prefix.include.list", _T.LIST, "", _I.LOW,
        "Regular expressions for the prefixes of the logical messages (pg_logical_emit_message) to capture, each "
        "matched with the whole prefix. Empty: all. Messages go to the topic PREFIX.message, where PREFIX is "
        "topic.prefix. Requires PostgreSQL 14.",
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
        "The time between two heartbeats, in milliseconds; 0: no heartbeats. A heartbeat is a record with the time in "
        "the topic of heartbeats. The replication slot advances without heartbeats, too.",
        validator=at_least(0),
    )
    .define(
        "heartbeat.action.query", _T.STRING, None, _I.LOW,
        "An SQL statement that runs in the database once in each heartbeat.interval.ms. It may take a quarter of this "
        "interval, at most 5 s. If it fails, this is logged, and it runs again at the next heartbeat.",
        validator=not_blank,
    )
    .define(
        "topic.heartbeat.prefix", _T.STRING, "__debezium-heartbeat", _I.LOW,
        "The prefix of the topic of heartbeats, whose name is this prefix, a dot and topic.prefix.", validator=_prefix,
    )
    .define(
        "signal.data.collection", _T.STRING, None, _I.LOW,
        "The signaling table, as SCHEMA.TABLE. A row that is inserted into it is a signal, for example for an "
        "incremental snapshot. The table has the columns id, type and data. If it is captured, its events also go to "
        "its topic.",
        validator=_signal_table,
    )
    .define(
        "signal.enabled.channels", _T.LIST, "source", _I.LOW,
        "Where signals come from. Only source is supported: the table of signal.data.collection.", validator=_channels,
    )
    .define(
        "incremental.snapshot.chunk.size", _T.INT, 1024, _I.LOW,
        "The number of rows that an incremental snapshot reads at once and keeps in memory.", validator=at_least(1),
    )
    .define(
        "tombstones.on.delete", _T.BOOLEAN, True, _I.MEDIUM,
        "Whether each delete is followed by a tombstone, a record with the key and a null value, so that compaction "
        "removes the key.",
    )
    .define(
        "skipped.operations", _T.LIST, "none", _I.LOW,
        "The operations that write no events: c (insert), u (update), d (delete), t (truncate), or none.",
        validator=_operations,
    )
    .define(
        "decimal.handling.mode", _T.STRING, "precise", _I.MEDIUM,
        "How values of type numeric are represented. precise: as decimals, or as a struct if the scale varies. "
        "double: as DOUBLE. string: as text.",
        validator=one_of([str(mode) for mode in DecimalHandling]),
    )
    .define(
        "interval.handling.mode", _T.STRING, "string", _I.LOW,
        "How values of type interval are represented. string: in ISO 8601, exactly. numeric: in microseconds, where a "
        "month counts as 30.4375 days.",
        validator=one_of([str(mode) for mode in IntervalHandling]),
    )
    .define(
        "time.precision.mode", _T.STRING, "adaptive", _I.LOW,
        "How values of type date, time and timestamp are represented. adaptive: time and timestamp in milliseconds if "
        "the column has up to 3 fractional digits, else in microseconds. adaptive_time_microseconds: as adaptive, but "
        "time always in microseconds. microseconds: time and timestamp always in microseconds. connect: as Connect's "
        "logical types, in milliseconds. isostring: as text in ISO 8601.",
        validator=_time_precision,
    )
    .define(
        "unavailable.value.placeholder", _T.STRING, "__debezium_unavailable_value", _I.LOW,
        "The text in place of a large value that an update did not change: the server does not send such values.",
    )
    .define(
        "provide.transaction.metadata", _T.BOOLEAN, False, _I.LOW,
        "Whether each event contains its transaction's id and its position in the transaction. Then a record for "
        "BEGIN and one for END of each transaction, with the number of its events, go to the topic of transactions.",
    )
    .define(
        "topic.transaction", _T.STRING, "transaction", _I.LOW,
        "The last part of the name of the topic of transactions, which is topic.prefix, a dot and this text. See "
        "provide.transaction.metadata.", validator=_prefix,
    )
    .define(
        "transaction.split.interval.ms", _T.LONG, None, _I.LOW,
        "After how many milliseconds a source transaction that is still being read may be committed to Kafka in "
        "parts. Unset: never; a source transaction that takes longer than transaction.timeout.ms fails the task.",
        validator=at_least(1),
    )
)  # fmt: skip
