"""The properties of JdbcSource, with the names of the well-known JDBC source connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.topic_names import RULE, is_topic_name, topic_prefix
from fencepost.config.validators import at_least, one_of
from fencepost.connectors.rows.record_mapping import RecordColumns, define_row_columns
from fencepost.connectors.table_topics import shared_topic, topic_part


class Mode(StrEnum):
    """How a poll finds new rows."""

    SNAPSHOT = "snapshot"
    BULK = "bulk"
    INCREMENTING = "incrementing"
    TIMESTAMP = "timestamp"
    TIMESTAMP_INCREMENTING = "timestamp+incrementing"


class NumericMapping(StrEnum):
    """How values of numeric columns are represented."""

    NONE = "none"
    PRECISION_ONLY = "precision_only"
    BEST_FIT = "best_fit"


URL = "connection.url"
USER = "connection.user"
PASSWORD = "connection.password"  # noqa: S105 - the name of a property
MODE = "mode"
INCREMENTING_COLUMN = "incrementing.column.name"
TIMESTAMP_COLUMNS = "timestamp.column.name"
TIMESTAMP_DELAY = "timestamp.delay.interval.ms"
TIMESTAMP_INITIAL = "timestamp.initial"
SINGLE_WRITER = "single.writer"
WHITELIST = "table.whitelist"
BLACKLIST = "table.blacklist"
TABLE_TYPES = "table.types"
SCHEMA_PATTERN = "schema.pattern"
CATALOG_PATTERN = "catalog.pattern"
QUERY = "query"
QUERY_SUFFIX = "query.suffix"
TOPIC_PREFIX = "topic.prefix"
POLL_INTERVAL = "poll.interval.ms"
BATCH_ROWS = "batch.max.rows"
NUMERIC_MAPPING = "numeric.mapping"
TIME_ZONE = "db.timezone"
VALIDATE_NON_NULL = "validate.non.null"
QUOTE_IDENTIFIERS = "quote.sql.identifiers"

POSTGRES_PREFIX: Final = "jdbc:postgresql:"

UNSUPPORTED: Final = {
    "connection.attempts": "a failed connection is tried again until it works",
    "connection.backoff.ms": "a failed connection is tried again until it works",
    "dialect.name": "the dialect follows from connection.url",
    "numeric.precision.mapping": "use numeric.mapping=precision_only",
    "table.poll.interval.ms": "tables are found when the connector starts: restart it to find new ones",
    "timestamp.granularity": "timestamps are Connect's Timestamp, in milliseconds",
    "transaction.isolation.mode": "each read is one statement, or one exported snapshot",
}
"""Properties of the well-known connector that this connector lacks, each with the behaviour of this connector."""

_MAPPINGS: Final = (*NumericMapping, "best_fit_eager_double")


def _url(name: str, value: Any) -> None:
    if not str(value).startswith("jdbc:"):
        raise ConfigError(
            f"Invalid value for the property {name}: it must be of the form jdbc:postgresql://host:port/database",
            name=name,
        )


def _time_zone(name: str, value: Any) -> None:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):
        raise ConfigError(
            f"Invalid value {value!r} for the property {name}: it must be the name of a time zone, such as UTC or "
            "Europe/Berlin",
            name=name,
        ) from None


_Type, _Importance = ConfigDef.Type, ConfigDef.Importance

CONFIG: Final = define_row_columns(
    ConfigDef()
    .define(
        URL, _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The JDBC URL of the database, for example jdbc:postgresql://host:5432/database.",
        validator=_url,
    )
    .define(USER, _Type.STRING, None, _Importance.HIGH, "The user to connect as.")
    .define(PASSWORD, _Type.PASSWORD, None, _Importance.HIGH, "The user's password.")
    .define(
        MODE, _Type.STRING, Mode.SNAPSHOT, _Importance.HIGH,
        "How new rows are found. snapshot: by the transactions that have ended since the last poll; no row is lost or "
        "duplicated. bulk: all rows are read each time. incrementing, timestamp, timestamp+incrementing: rows with a "
        "higher id or a later timestamp than the last row that was read. In these three modes a row is lost if its "
        "transaction commits after rows with higher ids or later timestamps were read.",
        validator=one_of(tuple(Mode)),
    )
    .define(
        INCREMENTING_COLUMN, _Type.STRING, "", _Importance.MEDIUM,
        "The column whose ids grow with each new row, for the modes incrementing and timestamp+incrementing. Empty: "
        "the table's only identity or serial column.",
    )
    .define(
        TIMESTAMP_COLUMNS, _Type.LIST, "", _Importance.MEDIUM,
        "The column with the time of the row's last change, for the modes timestamp and timestamp+incrementing. Of "
        "several columns, the first that is not null counts.",
    )
    .define(
        TIMESTAMP_DELAY, _Type.LONG, 0, _Importance.MEDIUM,
        "How old a timestamp must be before its row is read, in milliseconds, so that transactions with earlier "
        "timestamps can commit first.",
        validator=at_least(0),
    )
    .define(
        TIMESTAMP_INITIAL, _Type.LONG, None, _Importance.LOW,
        "For a table without a committed offset: only rows with later timestamps are read, in milliseconds since "
        "1970; -1 is the present. Unset: all rows are read.",
        validator=at_least(-1),
    )
    .define(
        SINGLE_WRITER, _Type.BOOLEAN, False, _Importance.MEDIUM,
        "Whether rows are always committed in the order of their ids or timestamps, as a single writer does. The "
        "modes incrementing, timestamp and timestamp+incrementing deliver exactly once only if you confirm this with "
        "true.",
    )
    .define(
        WHITELIST, _Type.LIST, "", _Importance.HIGH,
        "The tables to read, each as table, schema.table or database.schema.table. Empty: all tables that the user "
        "may read.",
    )
    .define(BLACKLIST, _Type.LIST, "", _Importance.MEDIUM, "The tables to leave out, in the forms of table.whitelist.")
    .define(
        TABLE_TYPES, _Type.LIST, "TABLE,PARTITIONED TABLE", _Importance.LOW,
        "The kinds of tables to read: TABLE, PARTITIONED TABLE, VIEW, MATERIALIZED VIEW, FOREIGN TABLE.",
    )
    .define(
        SCHEMA_PATTERN, _Type.STRING, None, _Importance.MEDIUM,
        "The schemas in which tables are looked for, as a pattern of SQL's LIKE. Unset: all but the system's schemas.",
    )
    .define(
        CATALOG_PATTERN, _Type.STRING, None, _Importance.LOW,
        "The databases in which tables are looked for, as a pattern of SQL's LIKE. A connection to PostgreSQL has "
        "only one database.",
    )
    .define(
        QUERY, _Type.STRING, "", _Importance.MEDIUM,
        "A query to read instead of tables. Its rows go to the topic that topic.prefix names. In the modes "
        "incrementing, timestamp and timestamp+incrementing the query becomes a subquery: SELECT ... FROM (query) "
        "WHERE ... Not allowed in the mode snapshot.",
    )
    .define(
        QUERY_SUFFIX, _Type.STRING, "", _Importance.LOW,
        "SQL that is added at the end of each query, such as LIMIT 100; not allowed in the mode snapshot. It replaces "
        "the limit of batch.max.rows. All rows with the last id or timestamp are read, even beyond a limit.",
    )
    .define(
        TOPIC_PREFIX, _Type.STRING, ConfigDef.NO_DEFAULT, _Importance.HIGH,
        "The topic of a table is this prefix followed by the table's name; the topic of a query is the prefix alone.",
        validator=topic_prefix,
    )
    .define(
        POLL_INTERVAL, _Type.INT, 5000, _Importance.HIGH,
        "The pause after a round over all tables in which none had new rows, in milliseconds. In the mode bulk: the "
        "pause between two reads of a table.",
        validator=at_least(0),
    )
    .define(
        BATCH_ROWS, _Type.INT, 10_000, _Importance.LOW,
        "The maximum number of rows of a table that one poll reads. In the mode snapshot a poll may exceed it, "
        "because all rows of a source transaction stay together.",
        validator=at_least(1),
    )
    .define(
        NUMERIC_MAPPING, _Type.STRING, NumericMapping.NONE, _Importance.LOW,
        "The Spark types of numeric columns in PostgreSQL. none: DECIMAL, or STRING for columns without a precision "
        "or with more than 38 digits. precision_only: as none, but whole numbers of up to 18 digits (scale 0) are the "
        "smallest integer type that holds them. best_fit or best_fit_eager_double: as precision_only, but columns "
        "with a scale, or without a precision, are DOUBLE.",
        validator=one_of(_MAPPINGS),
    )
    .define(
        TIME_ZONE, _Type.STRING, "UTC", _Importance.MEDIUM,
        "The time zone in which PostgreSQL's columns of type timestamp (without time zone) are read, such as "
        "Europe/Berlin.",
        validator=_time_zone,
    )
    .define(
        VALIDATE_NON_NULL, _Type.BOOLEAN, True, _Importance.LOW,
        "Whether the connector refuses incrementing and timestamp columns that are not NOT NULL: rows with a null in "
        "such a column are never read.",
    )
    .define(
        QUOTE_IDENTIFIERS, _Type.STRING, "always", _Importance.MEDIUM,
        "Only always is supported: names of tables and columns are quoted in SQL, because they come from the "
        "database's catalog.",
        validator=one_of(("always",)),
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class JdbcConfig:
    """The parsed properties, by name. The representation omits them, because the password is among them."""

    values: Mapping[str, Any] = field(repr=False)

    @classmethod
    def parse(cls, config: Mapping[str, str]) -> JdbcConfig:
        """Return the properties of a configuration.

        Raises ConfigError, also for properties that contradict each other.
        """
        parsed = cls(CONFIG.parse(config))
        parsed.check(config)
        return parsed

    def check(self, config: Mapping[str, str]) -> None:
        """Raise ConfigError for the first property that contradicts another, or is not supported."""
        for name, instead in UNSUPPORTED.items():
            if name in config:
                raise ConfigError(f"The property {name} is not supported: {instead}", name=URL)
        self._check_record(config)
        if self.whitelist and self.values[BLACKLIST]:
            raise ConfigError(f"Set {WHITELIST} or {BLACKLIST}, not both", name=BLACKLIST)
        if self.query and (self.whitelist or self.values[BLACKLIST]):
            raise ConfigError(
                f"The property {QUERY} replaces the tables: remove {WHITELIST} and {BLACKLIST}", name=QUERY
            )
        if self.mode is Mode.SNAPSHOT:
            self._check_snapshot()
        if self.uses_timestamp and not self.timestamp_columns:
            raise ConfigError(f"{MODE}={self.mode} needs the property {TIMESTAMP_COLUMNS}", name=TIMESTAMP_COLUMNS)
        if not self.on_postgres:
            self._check_other_database()
        if self.query and self.uses_incrementing and not self.incrementing_column:
            raise ConfigError(
                f"{MODE}={self.mode} with a query needs {INCREMENTING_COLUMN}: name the column",
                name=INCREMENTING_COLUMN,
            )

    def _check_snapshot(self) -> None:
        if self.query:
            raise ConfigError(
                f"{MODE}=snapshot reads tables, not a query: choose another mode, or name the tables", name=QUERY
            )
        if self.values[QUERY_SUFFIX]:
            raise ConfigError(
                f"{MODE}=snapshot reads all rows of a transaction, and rows that {QUERY_SUFFIX} leaves out would never be read: "
                "remove it, or choose another mode",
                name=QUERY_SUFFIX,
            )
        other = {kind.upper() for kind in self.values[TABLE_TYPES]} - {"TABLE", "PARTITIONED TABLE"}
        if other:
            raise ConfigError(
                f"{MODE}=snapshot reads tables, whose rows have transactions: remove {min(other)}, or choose another mode",
                name=TABLE_TYPES,
            )

    def _check_record(self, config: Mapping[str, str]) -> None:
        if self.record != RecordColumns() and not self.on_postgres:
            name = next(name for name in define_row_columns(ConfigDef()).keys() if name in config)  # noqa: SIM118
            raise ConfigError(f"The property {name} needs PostgreSQL: remove it", name=name)

    def _check_other_database(self) -> None:
        if self.mode not in (Mode.BULK, Mode.INCREMENTING):
            raise ConfigError(
                f"{MODE}={self.mode} needs PostgreSQL: other databases have {MODE}=bulk and {MODE}=incrementing",
                name=MODE,
            )
        if self.values[QUERY_SUFFIX]:
            raise ConfigError(
                f"The property {QUERY_SUFFIX} needs PostgreSQL: remove it, or use a {QUERY}", name=QUERY_SUFFIX
            )
        self.check_topics([(table, table_name(table)) for table in self.whitelist])
        if not self.query and not self.whitelist:
            raise ConfigError(
                f"Name the tables with {WHITELIST}: without it, tables are found only on PostgreSQL", name=WHITELIST
            )
        if self.mode is Mode.INCREMENTING and not self.incrementing_column:
            raise ConfigError(
                f"{MODE}=incrementing needs {INCREMENTING_COLUMN}: without it, the column is found only on PostgreSQL",
                name=INCREMENTING_COLUMN,
            )

    @property
    def on_postgres(self) -> bool:
        """Whether the database is PostgreSQL."""
        return str(self.values[URL]).startswith(POSTGRES_PREFIX)

    @property
    def mode(self) -> Mode:
        """How new rows are found."""
        return Mode(self.values[MODE].lower())

    @property
    def uses_incrementing(self) -> bool:
        """Whether the mode compares ids."""
        return self.mode in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING)

    @property
    def uses_timestamp(self) -> bool:
        """Whether the mode compares timestamps."""
        return self.mode in (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING)

    @property
    def exact(self) -> bool:
        """Whether each row is delivered exactly once."""
        return self.mode in (Mode.SNAPSHOT, Mode.BULK) or bool(self.values[SINGLE_WRITER])

    @property
    def whitelist(self) -> list[str]:
        """The tables to read; all tables if the list is empty."""
        return [name for name in self.values[WHITELIST] if name]

    @property
    def blacklist(self) -> list[str]:
        """The tables to leave out."""
        return [name for name in self.values[BLACKLIST] if name]

    @property
    def query(self) -> str:
        """The query, or an empty text if there is none."""
        return str(self.values[QUERY]).strip()

    @property
    def incrementing_column(self) -> str:
        """The column that contains ids, or an empty text."""
        return str(self.values[INCREMENTING_COLUMN]).strip()

    @property
    def timestamp_columns(self) -> list[str]:
        """The columns that contain timestamps."""
        return [name for name in self.values[TIMESTAMP_COLUMNS] if name]

    @property
    def numeric_mapping(self) -> NumericMapping:
        """How values of numeric columns are represented."""
        given = self.values[NUMERIC_MAPPING].lower()
        return NumericMapping.BEST_FIT if given == "best_fit_eager_double" else NumericMapping(given)

    @property
    def time_zone(self) -> str:
        """The time zone for timestamps that have no time zone."""
        return str(self.values[TIME_ZONE])

    @property
    def record(self) -> RecordColumns:
        """The columns that define the record's key, topic, timestamp and headers."""
        return RecordColumns.from_values(self.values)

    def topic(self, table: str) -> str:
        """Return the topic of a table, given the table's name without its schema."""
        return f"{self.values[TOPIC_PREFIX]}{topic_part(table)}"

    def check_topics(self, tables: Sequence[tuple[str, str]]) -> None:
        """Raise ConfigError if tables would share a topic, or if Kafka does not allow a topic's name.

        Each table is a pair: its name for messages, with the schema, and its name for the topic, without the schema.
        """
        if self.record.topic:
            return
        listed, how = (WHITELIST, "Remove it from") if self.whitelist else (BLACKLIST, "Leave it out with")
        for table, name in tables:
            if not is_topic_name(topic := self.topic(name)):
                raise ConfigError(
                    f"The rows of the table {table} would go to the topic {topic!r}, but {RULE}. {how} {listed}, and read "
                    f"it by a connector of its own that has a {QUERY} instead: its topic is {TOPIC_PREFIX}",
                    name=listed,
                )
        if shared := shared_topic((table, self.topic(name)) for table, name in tables):
            raise ConfigError(
                f"{shared}. Read one of them by another connector, with another {TOPIC_PREFIX}", name=listed
            )


def ended(sql: str) -> str:
    """Return a user's SQL with a line end, so that more SQL can follow: the user's SQL may end with a line comment."""
    return f"{sql}\n" if sql else ""


def table_name(table: str) -> str:
    """Return the name of a table without its schema and quotes."""
    return table.rpartition(".")[2].strip('"`[]')
