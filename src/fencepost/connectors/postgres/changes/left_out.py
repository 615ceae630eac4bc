"""Relations that match `table.include.list`, but that cannot be captured.

The stream lacks their changes, or has them under the name of another relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fencepost.connectors.postgres.changes.config import PostgresConfig
from fencepost.connectors.postgres.changes.connection import query

if TYPE_CHECKING:
    import psycopg

_JDBC: Final = "List the tables that it reads, or read it with JdbcSource"
# The kinds of relations, by their kind or persistence in pg_class, each with advice.
_KINDS: Final = {
    "v": f"a view, of which the server's log has no changes. {_JDBC}",
    "m": f"a materialized view, of which the publication has no changes. {_JDBC}",
    "f": "a foreign table, whose changes are in the log of the server that has its rows. Capture it there",
    "u": "an unlogged table, of which the server's log has no changes. Run ALTER TABLE ... SET LOGGED",
    "t": "a temporary table, which only its session sees. Write its rows to another table",
    "p": "a partitioned table, whose changes are in its partitions, and none of them is captured. List them, or "
    "create the publication with publish_via_partition_root",
}
_VIA_ROOT: Final = "a partition of {root}, under whose name the publication sends its changes (publish_via_partition_root). List {root}"
# A connector without an include list leaves these kinds out silently.
_OF_EVERYBODY: Final = ("v", "m")

# `roots` are the partitioned parents of a relation. `sent` shows whether the publication sends the relation's changes
# under the name of a parent or, if the relation is partitioned itself, under its own name.
_RELATIONS: Final = """
SELECT n.nspname || '.' || c.relname, c.relkind::text, c.relpersistence::text, coalesce(a.roots, '{}'), coalesce(a.sent, false)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN LATERAL (
  SELECT array_agg(rn.nspname || '.' || r.relname) FILTER (WHERE r.oid <> c.oid) AS roots,
    bool_or(r.relkind = 'p' AND (p.puballtables OR EXISTS (SELECT FROM pg_publication_rel m WHERE m.prpubid = p.oid AND m.prrelid = r.oid))) AS sent
  FROM pg_partition_ancestors(c.oid) s JOIN pg_class r ON r.oid = s.relid JOIN pg_namespace rn ON rn.oid = r.relnamespace
  LEFT JOIN pg_publication p ON p.pubname = %s AND p.pubviaroot) a ON true
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND (c.relkind <> 'r' OR c.relpersistence <> 'p' OR c.relispartition)
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND (n.nspname NOT LIKE 'pg\\_%%' OR c.relpersistence = 't')
ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A relation that matches the configuration but cannot be captured.

    `named` says that the list contains the relation's name itself, not only a pattern that matches it.
    """

    name: str
    why: str
    named: bool

    def __str__(self) -> str:
        return f"{self.name}, which is {self.why}"


def left_out(connection: psycopg.Connection[Any], config: PostgresConfig) -> list[LeftOut]:
    """Return the relations that match the properties but cannot be captured. Raises RetriableError or PostgresError."""
    rows = query(connection, _RELATIONS, [config.publication])
    # These are partitioned tables whose changes arrive under the names of their partitions.
    covered = {root for name, kind, _, roots, _ in rows if kind == "r" and config.captures(name) for root in roots}
    found = []
    for name, kind, persistence, roots, sent in rows:
        if not config.captures(name) or not (config.included or kind not in _OF_EVERYBODY):
            continue
        if kind in ("r", "p") and persistence != "p":
            why = _KINDS[persistence]
        elif kind == "r":
            if not sent or any(config.captures(root) for root in roots):
                continue
            why = _VIA_ROOT.format(root=roots[-1])
        elif kind == "p" and (sent or name in covered):
            continue
        else:
            why = _KINDS[kind]
        found.append(LeftOut(name, why, config.names(name)))
    return found


def refusal(relations: Sequence[LeftOut]) -> str | None:
    """Return an error message if the include list names some of these relations, None if it does not."""
    named = [str(relation) for relation in relations if relation.named]
    if not named:
        return None
    return f"table.include.list has {'; and '.join(named)}; or remove it from the list"
