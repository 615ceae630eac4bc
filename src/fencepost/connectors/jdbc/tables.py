"""The tables of a PostgreSQL database and their columns, read from the catalogs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as t

from fencepost.api.errors import ConfigError, DataError
from fencepost.connectors.jdbc.pg_types import PgType, spark_type
from fencepost.connectors.jdbc.properties import (
    BLACKLIST,
    CATALOG_PATTERN,
    MODE,
    SCHEMA_PATTERN,
    TABLE_TYPES,
    WHITELIST,
    JdbcConfig,
    NumericMapping,
    ended,
    table_name,
)
from fencepost.connectors.postgres.server.quoting import quoted
from fencepost.connectors.postgres.types.type_rows import SELECT_TYPES, TypeRow, type_rows
from fencepost.connectors.table_topics import same_name

if TYPE_CHECKING:
    from fencepost.connectors.jdbc.connection import Connection

_KINDS: Final = {
    "TABLE": "r", "PARTITIONED TABLE": "p", "VIEW": "v", "MATERIALIZED VIEW": "m", "FOREIGN TABLE": "f",
}  # fmt: skip

# Partitions are left out, because they are read through their table.
_TABLES: Final = """
select current_database(), n.nspname, c.relname
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind::text = any(%(kinds)s) and not c.relispartition
  and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_(toast|temp)'
  and (%(schema)s::text is null or n.nspname like %(schema)s)
  and (%(catalog)s::text is null or current_database() like %(catalog)s)
  and has_schema_privilege(n.oid, 'usage') and has_any_column_privilege(c.oid, 'select')
order by 2, 3
"""

# Relations with the name of a listed table that was not found, to report why it is not read.
_OTHERS: Final = """
select n.nspname, c.relname, c.relkind::text, c.relpersistence = 't',
       case when c.relispartition then pg_partition_root(c.oid)::regclass::text end,
       has_schema_privilege(n.oid, 'usage') and has_any_column_privilege(c.oid, 'select')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relname = %s and c.relkind in ('r', 'p', 'v', 'm', 'f') order by 1
"""

_COLUMNS: Final = """
select a.attname, a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       a.attidentity <> '' or coalesce(pg_get_expr(d.adbin, d.adrelid) like 'nextval(%%', false),
       coalesce(pg_get_expr(d.adbin, d.adrelid) like '%%pg_current_xact_id()%%', false)
from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""


@dataclass(frozen=True, slots=True)
class TableId:
    """A table's schema and name."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @classmethod
    def parse(cls, text: str) -> TableId:
        """Parse a table from its text form, which `str` returns. The schema's name must not contain a dot."""
        schema, _, name = text.partition(".")
        return cls(schema, name)

    def sql(self) -> str:
        """Return the name for SQL."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class JdbcColumn:
    """A column: its type in PostgreSQL, and the Spark type that it becomes.

    `numbered` says that the server assigns increasing numbers (serial, identity). `stamped` says that the default value
    is the number of the transaction that inserts the row.
    """

    name: str
    type: PgType
    becomes: t.DataType
    not_null: bool = False
    numbered: bool = False
    stamped: bool = False

    @property
    def label(self) -> str:
        """The column's name and type, for messages."""
        return f'"{self.name}" ({self.type.text})'


def find_tables(connection: Connection, config: JdbcConfig) -> list[TableId]:
    """Return the tables that the configuration names, in order.

    Raises ConfigError for a missing table, and for two tables of the same name, which would share one offset.
    """
    tables = _found(connection, config)
    if (same := same_name(map(str, tables))) is not None:
        raise ConfigError(
            f"{same}: rename one of them, or read them by connectors of their own, with {SCHEMA_PATTERN}",
            name=SCHEMA_PATTERN,
        )
    return tables


def _found(connection: Connection, config: JdbcConfig) -> list[TableId]:
    kinds = []
    for kind in config.values[TABLE_TYPES]:
        if kind.upper() not in _KINDS:
            raise ConfigError(
                f"The property {TABLE_TYPES} names {kind}: it may have {', '.join(_KINDS)}", name=TABLE_TYPES
            )
        kinds.append(_KINDS[kind.upper()])
    rows = connection.execute(
        _TABLES,
        {"kinds": kinds, "schema": config.values[SCHEMA_PATTERN], "catalog": config.values[CATALOG_PATTERN]},
    ).fetchall()
    found = {TableId(schema, name): database for database, schema, name in rows}
    if config.whitelist:
        return _named(connection, config, found)
    left_out = {
        table for name in config.blacklist for table, database in found.items() if _matches(name, table, database)
    }
    tables = [table for table in found if table not in left_out]
    if not tables:
        raise ConfigError(
            f"There is no table that the user may read: grant SELECT on some, or correct {WHITELIST}, {BLACKLIST}, "
            f"{TABLE_TYPES} and {SCHEMA_PATTERN}",
            name=WHITELIST,
        )
    return tables


def _named(connection: Connection, config: JdbcConfig, found: dict[TableId, str]) -> list[TableId]:
    tables: dict[TableId, None] = {}
    for name in config.whitelist:
        matches = [table for table, database in found.items() if _matches(name, table, database)]
        if len(matches) != 1:
            problem = "there are " + " and ".join(map(str, matches)) if matches else _why_not(connection, config, name)
            raise ConfigError(f"The property {WHITELIST} names {name}, but {problem}", name=WHITELIST)
        tables[matches[0]] = None
    return list(tables)


def _why_not(connection: Connection, config: JdbcConfig, name: str) -> str:
    """Return why a relation with this name is not read."""
    ((database,),) = connection.execute("select current_database()").fetchall()
    for schema, own, kind, temporary, root, readable in connection.execute(_OTHERS, (table_name(name),)).fetchall():
        table = TableId(schema, own)
        if not _matches(name, table, database):
            continue
        if temporary:
            return f"{table} is a temporary table, which only its session sees: write its rows to another table"
        if not readable:
            return f"the user may not read {table}: grant SELECT on it, and USAGE on its schema"
        if root is not None:
            return f"{table} is a partition, which is read through its table: name {root}"
        label = next(label for label, letter in _KINDS.items() if letter == kind)
        if label not in {given.upper() for given in config.values[TABLE_TYPES]}:
            mode = f", with another {MODE} than snapshot" if kind in ("v", "m", "f") else ""
            return f"{table} is a {label}, which {TABLE_TYPES} leaves out: add it there{mode}"
        return f"{SCHEMA_PATTERN} or {CATALOG_PATTERN} leave out {table}: correct them"
    return "the table does not exist: correct the name"


def _matches(name: str, table: TableId, database: str) -> bool:
    name = re.sub(r'"([^"]*)"', r"\1", name.strip())
    return name in (table.name, str(table), f"{database}.{table}")


class Catalog:
    """Reads the columns of tables and queries. Types are kept, because they do not change."""

    def __init__(self, mapping: NumericMapping) -> None:
        self._mapping = mapping
        self._types: dict[int, TypeRow] = {}

    def columns(self, connection: Connection, table: TableId) -> tuple[JdbcColumn, ...]:
        """Return the columns of a table. Raises DataError if the table has no columns, and psycopg's errors."""
        rows = connection.execute(_COLUMNS, (table.sql(),)).fetchall()
        if not rows:
            raise DataError(f"The table {table} has no columns: leave it out")
        self._load(connection, {row[1] for row in rows})
        return tuple(
            self._column(name, oid, modifier, text, not_null=not_null, numbered=numbered, stamped=stamped)
            for name, oid, modifier, text, not_null, numbered, stamped in rows
        )

    def columns_of_query(self, connection: Connection, query: str) -> tuple[JdbcColumn, ...]:
        """Return the columns of a query's rows; each column may be null. Raises the same errors as `columns`."""
        result = connection.execute(f"select * from ({ended(query)}) q limit 0".encode()).pgresult  # noqa: S608 - the user's own
        if result is None or not result.nfields:
            raise DataError("The query has no columns: select some")
        fields = [((result.fname(i) or b"").decode(), result.ftype(i), result.fmod(i)) for i in range(result.nfields)]
        names = [name for name, _, _ in fields]
        if twice := {name for name in names if names.count(name) > 1}:
            raise DataError(f"The query has the column {min(twice)!r} more than once: name its columns differently")
        self._load(connection, {oid for _, oid, _ in fields})
        return tuple(self._column(name, oid, modifier, self._types[oid].name) for name, oid, modifier in fields)

    def _column(
        self, name: str, oid: int, modifier: int, text: str, *, not_null: bool = False, **more: bool
    ) -> JdbcColumn:
        kind, never_null = self._resolve(oid, modifier)
        becomes = spark_type(kind, self._mapping)
        return JdbcColumn(name, replace(kind, text=text), becomes, not_null or never_null, **more)

    def _load(self, connection: Connection, oids: set[int]) -> None:
        """Load types, with their component types."""
        self._types |= type_rows(
            lambda wanted: connection.execute(SELECT_TYPES, (wanted,)).fetchall(), oids, self._types
        )

    def _resolve(self, oid: int, modifier: int) -> tuple[PgType, bool]:
        """Return a type with its domains resolved, and whether one of the domains is NOT NULL."""
        row = self._types[oid]
        if row.base:
            kind, below = self._resolve(row.base, row.base_modifier)
            return kind, row.not_null or below
        inner = self._resolve(row.element, modifier)[0] if row.element else None
        return PgType(row.name, row.name, modifier, row.built_in, inner, is_enum=row.is_enum), False
