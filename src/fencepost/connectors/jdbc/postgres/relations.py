"""The tables that contain a table's rows: the table itself, its partitions and the tables that inherit from it.

A snapshot of transactions shows which rows were delivered, but only for the tables that were read with it. A table that
is added later may have rows of transactions that ended long before. Examples are a partition that was loaded and then
attached, or another table that was renamed to this name. So an offset lists the tables by their numbers (oid), and all
rows of tables that are not in the list are new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fencepost.api.errors import DataError
from fencepost.connectors.postgres.server.quoting import quoted

if TYPE_CHECKING:
    from fencepost.connectors.jdbc.postgres.server import OpenServer

# A view has no tables of its own, and no column tableoid.
_RELATIONS: Final = """
with recursive r(id) as (
    select %s::regclass::oid union select i.inhrelid from pg_inherits i join r on i.inhparent = r.id)
select c.oid::bigint, c.relkind = 'f', c.oid::regclass::text
from r join pg_class c on c.oid = r.id where c.relkind <> 'v' order by 1
"""

# The condition on a partition lets the server skip all other partitions.
_NAMES: Final = """
select c.oid::bigint, c.oid::regclass::text, coalesce(pg_get_partition_constraintdef(c.oid), 'true')
from pg_class c where c.oid = any(%s::oid[]) and c.relkind <> 'p' order by 2
"""

_UNSTAMPED: Final = """
select a.attrelid::regclass::text
from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = any(%s::oid[]) and a.attname = %s
  and coalesce(pg_get_expr(d.adbin, d.adrelid), '') not like '%%pg_current_xact_id()%%' order by 1
"""


def relations(server: OpenServer, table: str) -> tuple[int, ...]:
    """Return the numbers (oid) of the tables that contain the rows of `table`, a name in SQL; none for a view.

    Raises DataError if some of these tables are foreign tables.
    """
    found = server.connection.execute(_RELATIONS.encode(), (table,)).fetchall()
    if foreign := [name for _, is_foreign, name in found if is_foreign]:
        raise DataError(
            f"Rows of {table} lie on another server, in the foreign table {', '.join(foreign)}, and have no transactions "
            "of this one: mode=snapshot would not see new ones. Detach it, and read it there, or choose another mode"
        )
    return tuple(oid for oid, _, _ in found)


def check_stamped(server: OpenServer, table: str, tables: Sequence[int], column: str) -> None:
    """Raise DataError unless the column stores the transaction of each row that is inserted into the `tables`."""
    names = [name for (name,) in server.connection.execute(_UNSTAMPED.encode(), (list(tables), column)).fetchall()]
    if names:
        raise DataError(
            f"The column {column} of {', '.join(names)}, where rows of {table} lie, does not have the default "
            "pg_current_xact_id(): rows that are inserted there directly would not be found. Run ALTER TABLE "
            f"{table} ALTER COLUMN {quoted(column)} SET DEFAULT pg_current_xact_id(), which sets it there as well"
        )


def rows_of_tables(tables: Sequence[int]) -> str:
    """Return the SQL condition for rows `t` in these tables."""
    return f"t.tableoid = any('{{{','.join(map(str, tables))}}}'::oid[])"


def with_rows(server: OpenServer, table: str, among: Sequence[int], condition: str) -> dict[int, str]:
    """Return the oids and names of the tables in `among` with rows `t` for which a condition is true.

    The tables are queried through `table`, because the user may have no rights for a partition itself.
    """
    found = {}
    for oid, name, bounds in server.connection.execute(_NAMES.encode(), (list(among),)).fetchall():
        statement = (
            f"select exists (select from {table} t where {rows_of_tables([oid])} and ({bounds}) and ({condition}))"  # noqa: S608 - of the catalogs
        )
        if server.one(statement):
            found[oid] = name
    return found
