"""The order in which PostgreSQL sorts the rows of a table by their key, in SQL.

ORDER BY uses the operators of the B-tree class of a type. A comparison finds its operator by name in the search path,
which contains only PostgreSQL's own schema. For a type of an extension, that operator would be missing or a different
operator: values of `citext` would be compared as `text`, in another order, and rows would be left out. So operators of
such types are written with their schema.

https://www.postgresql.org/docs/current/xindex.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fencepost.connectors.postgres.changes.connection import query
from fencepost.connectors.postgres.server.quoting import quoted

if TYPE_CHECKING:
    import psycopg

# The numbers of the B-tree strategies.
_STRATEGIES: Final = {1: "<", 2: "<=", 4: ">=", 5: ">"}

_COLUMNS: Final = """
WITH RECURSIVE typed AS (
  SELECT attname, format_type(atttypid, atttypmod) AS name, atttypid AS type, attcollation::regcollation::text AS rules
  FROM pg_attribute WHERE attrelid = %s AND attname = ANY(%s) AND NOT attisdropped
  UNION ALL
  SELECT attname, name, typbasetype, rules FROM typed JOIN pg_type t ON t.oid = type WHERE typtype = 'd'
)
SELECT attname, name, rules, amopstrategy, quote_ident(nspname), oprname
FROM typed
LEFT JOIN (
  pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'
  JOIN pg_amop ON amopfamily = opcfamily AND amoplefttype = opcintype AND amoprighttype = opcintype
  JOIN pg_operator p ON p.oid = amopopr JOIN pg_namespace n ON n.oid = oprnamespace AND nspname <> 'pg_catalog'
) ON opcintype = type AND opcdefault
"""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a key.

    `type` and `collation` are written as in SQL. `operators` maps a comparison (`<`, `>=` ...) to its operator, if that is
    outside of pg_catalog. Other comparisons are written as they are.
    """

    name: str
    type: str
    operators: Mapping[str, str] = field(default_factory=dict)
    collation: str = "-"

    def compared(self, operator: str, text: str) -> str:
        """Return the SQL that compares the column with a value."""
        return f"{self.sql()} {self.operators.get(operator, operator)} {self.literal(text)}"

    def sql(self) -> str:
        """Return the column's name in SQL."""
        return quoted(self.name)

    def literal(self, text: str) -> str:
        """Return a value of the column in SQL."""
        escaped = text.replace("\\", "\\\\").replace("'", "''")
        return f"E'{escaped}'::{self.type}"


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The columns of a key, in the order of its index."""

    columns: Sequence[KeyColumn]

    def described(self) -> tuple[str, ...]:
        """Return a text for each column. The texts change if the sort order of the rows changes."""
        return tuple(f"{column.sql()} {column.type} {column.collation}" for column in self.columns)

    def names(self) -> str:
        """Return the columns as a list for SELECT."""
        return ", ".join(column.sql() for column in self.columns)

    def sorting(self, table: str, *, descending: bool = False) -> str:
        """Return the columns for ORDER BY, with the table's name: a bare name could mean an alias in the SELECT."""
        return ", ".join(f"{quoted(table)}.{column.sql()}" + " DESC" * descending for column in self.columns)

    def after(self, key: Sequence[str]) -> str:
        """Return the SQL condition for rows after a key."""
        return self._beyond(">", key)

    def up_to(self, key: Sequence[str]) -> str:
        """Return the SQL condition for rows up to and including a key."""
        return self._beyond("<=", key)

    def _beyond(self, last: str, key: Sequence[str]) -> str:
        if not any(column.operators for column in self.columns):
            # This is one comparison of rows, which can use an index on all of the columns.
            literals = ", ".join(column.literal(text) for column, text in zip(self.columns, key, strict=True))
            return f"({self.names()}) {last} ({literals})"
        strict = last[0]
        *first, (column, text) = zip(self.columns, key, strict=True)
        condition = column.compared(last, text)
        for column, text in reversed(first):
            condition = f"{column.compared(f'{strict}=', text)} AND ({column.compared(strict, text)} OR {condition})"
        return f"({condition})"


def key_order(connection: psycopg.Connection[Any], table: int, key: Sequence[str]) -> KeyOrder:
    """Return how PostgreSQL sorts the rows of a table by the given columns. Raises RetriableError or PostgresError."""
    types: dict[str, tuple[str, str]] = {}
    operators: dict[str, dict[str, str]] = {name: {} for name in key}
    for name, kind, collation, strategy, schema, operator in query(connection, _COLUMNS, [table, list(key)]):
        types[name] = kind, collation
        if strategy in _STRATEGIES:
            operators[name][_STRATEGIES[strategy]] = f"OPERATOR({schema}.{operator})"
    return KeyOrder([KeyColumn(name, types[name][0], operators[name], types[name][1]) for name in key])
