"""A parsed configuration of PostgresSource: which tables, columns and messages are captured, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import ConfigError
from fencepost.connectors.postgres.changes.connection import ConnectionSettings
from fencepost.connectors.postgres.changes.definitions import DEFINITIONS, Autocreate, SnapshotMode, key_parts
from fencepost.connectors.postgres.changes.events.envelope import EnvelopeSettings
from fencepost.connectors.postgres.changes.stream.messages import WATERMARK
from fencepost.connectors.postgres.changes.unsupported import refuse_unsupported
from fencepost.connectors.postgres.types.temporal import TimePrecision
from fencepost.connectors.postgres.types.types import DecimalHandling, IntervalHandling
from fencepost.connectors.table_topics import topic_part

_FILES: Final = ("sslrootcert", "sslcert", "sslkey")


@dataclass(frozen=True, slots=True)
class PostgresConfig:
    """The parsed properties."""

    connection: ConnectionSettings
    prefix: str
    slot: str
    slot_failover: bool
    publication: str
    autocreate: Autocreate
    snapshot_mode: SnapshotMode
    decimals: DecimalHandling
    times: TimePrecision
    intervals: IntervalHandling
    envelope: EnvelopeSettings
    split_after_s: float | None
    heartbeat_s: float
    """Seconds between heartbeats, 0 for none."""
    heartbeat_topic: str
    heartbeat_action: str | None
    """A statement to run with each heartbeat."""
    transaction_topic: str | None
    """The topic of the events BEGIN and END, None if there are no transaction events."""
    signal_table: str | None
    """The table of signals, as SCHEMA.TABLE."""
    chunk_size: int
    """The number of rows in a chunk of an incremental snapshot."""
    key_columns: Sequence[tuple[re.Pattern[str], frozenset[str]]]
    included: Sequence[re.Pattern[str]]
    excluded: Sequence[re.Pattern[str]]
    included_messages: Sequence[re.Pattern[str]]
    excluded_messages: Sequence[re.Pattern[str]]
    excluded_columns: Sequence[re.Pattern[str]]

    @classmethod
    def parse(cls, config: Mapping[str, str]) -> PostgresConfig:
        """Return the properties of a configuration. Raises ConfigError."""
        given = DEFINITIONS.parse(config)
        refuse_unsupported(config)
        _check_together(given)
        split_ms = given["transaction.split.interval.ms"]
        mode = SnapshotMode(given["snapshot.mode"].lower())
        return cls(
            connection=_connection(given),
            prefix=given["topic.prefix"],
            slot=given["slot.name"],
            slot_failover=given["slot.failover"],
            publication=given["publication.name"],
            autocreate=Autocreate(given["publication.autocreate.mode"].lower()),
            snapshot_mode=SnapshotMode.NO_DATA if mode is SnapshotMode.NEVER else mode,
            decimals=DecimalHandling(given["decimal.handling.mode"].lower()),
            times=TimePrecision(given["time.precision.mode"].lower()),
            intervals=IntervalHandling(given["interval.handling.mode"].lower()),
            envelope=_envelope(given),
            split_after_s=None if split_ms is None else split_ms / 1000,
            heartbeat_s=given["heartbeat.interval.ms"] / 1000,
            heartbeat_action=given["heartbeat.action.query"],
            heartbeat_topic=f"{given['topic.heartbeat.prefix']}.{given['topic.prefix']}",
            transaction_topic=(
                f"{given['topic.prefix']}.{given['topic.transaction']}" if given["provide.transaction.metadata"] else None
            ),
            signal_table=given["signal.data.collection"],
            chunk_size=given["incremental.snapshot.chunk.size"],
            key_columns=_keys(given["message.key.columns"]),
            included=_compiled(given["table.include.list"]),
            excluded=_compiled(given["table.exclude.list"]),
            included_messages=_compiled(given["message.prefix.include.list"]),
            excluded_messages=_compiled(given["message.prefix.exclude.list"]),
            excluded_columns=_compiled(given["column.exclude.list"]),
        )  # fmt: skip

    def check_files(self, allowed: AllowedPaths) -> None:
        """Check that the worker allows connectors to read the TLS files. Raises ConfigError."""
        for name in _FILES:
            if name in self.connection.options:
                try:
                    allowed.check(self.connection.options[name])
                except ConfigError as error:
                    raise ConfigError(str(error), name=f"database.{name}") from None

    def captures(self, table: str) -> bool:
        """Whether `schema.table` is captured."""
        return _listed(table, self.included, self.excluded)

    def names(self, table: str) -> bool:
        """Whether `table.include.list` contains the name `schema.table` itself, not only a pattern that matches it."""
        return any(re.sub(r"\\(.)", r"\1", entry.pattern).lower() == table.lower() for entry in self.included)

    def topic(self, table: str) -> str:
        """Return the topic of `schema.table`."""
        return f"{self.prefix}.{topic_part(table)}"

    def captures_message(self, prefix: str) -> bool:
        """Whether logical messages with this prefix are captured."""
        return prefix != WATERMARK and _listed(prefix, self.included_messages, self.excluded_messages)

    def chosen_key(self, table: str) -> frozenset[str] | None:
        """Return the configured key columns of `schema.table`, None if the table's own key is used."""
        return next((columns for pattern, columns in self.key_columns if pattern.fullmatch(table)), None)

    def has_column(self, column: str) -> bool:
        """Whether `schema.table.column` is part of the events."""
        return not any(pattern.fullmatch(column) for pattern in self.excluded_columns)


def _check_together(given: Mapping[str, Any]) -> None:
    if given["heartbeat.action.query"] and not given["heartbeat.interval.ms"]:
        raise ConfigError(
            "The property heartbeat.action.query has no effect without heartbeat.interval.ms",
            name="heartbeat.action.query",
        )
    for what in ("table", "message.prefix"):
        if given[f"{what}.include.list"] and given[f"{what}.exclude.list"]:
            raise ConfigError(
                f"{what}.include.list and {what}.exclude.list are both set: remove one of them",
                name=f"{what}.exclude.list",
            )


def _connection(given: Mapping[str, Any]) -> ConnectionSettings:
    tls = {name: given[f"database.{name}"] for name in ("sslmode", "sslpassword", *_FILES)}
    return ConnectionSettings(
        given["database.hostname"], given["database.port"], given["database.user"], given["database.dbname"],
        given["database.password"], {name: value for name, value in tls.items() if value is not None},
    )  # fmt: skip


def _envelope(given: Mapping[str, Any]) -> EnvelopeSettings:
    return EnvelopeSettings(
        prefix=given["topic.prefix"],
        database=given["database.dbname"],
        tombstones=given["tombstones.on.delete"],
        skipped=frozenset(given["skipped.operations"]) - {"none"},
        placeholder=given["unavailable.value.placeholder"],
    )


def _listed(name: str, included: Sequence[re.Pattern[str]], excluded: Sequence[re.Pattern[str]]) -> bool:
    if included:
        return any(pattern.fullmatch(name) for pattern in included)
    return not any(pattern.fullmatch(name) for pattern in excluded)


def _compiled(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    return [re.compile(pattern, re.IGNORECASE | re.ASCII) for pattern in patterns if pattern]


def _keys(value: str | None) -> list[tuple[re.Pattern[str], frozenset[str]]]:
    parts = [part.rpartition(":") for part in key_parts(value)]
    return [
        (
            re.compile(table.strip(), re.IGNORECASE | re.ASCII),
            frozenset(column.strip() for column in columns.split(",")),
        )
        for table, _, columns in parts
    ]
