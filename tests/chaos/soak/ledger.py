"""JdbcSource reads the clerks' tables with mode=snapshot: one by its column of transaction ids, one by xmin."""

from __future__ import annotations

import json
from typing import Any

from tests.chaos.soak.changes import CAUGHT_UP_SECONDS, json_converters
from tests.chaos.soak.clerks import TABLES, rows, touch
from tests.chaos.soak.cluster import Cluster, ask
from tests.chaos.soak.postgres import Server
from tests.chaos.soak.rows import Promise, Seen, row_faults
from tests.support.bank import records_by_transaction
from tests.support.processes import wait_for

NAME = "ledger"
_POLL_MS = 200


class Ledger:
    """The connector, and the comparison of its topics with the tables."""

    def __init__(self, server: Server, cluster: Cluster, *, replicas: int) -> None:
        self._database = server.database
        self._cluster = cluster
        self.configs = {
            NAME: {
                "name": NAME,
                "connector.class": "JdbcSource",
                "connection.url": f"jdbc:postgresql://{server.proxy.address}/{server.database.name}",
                "connection.user": "postgres",
                "mode": "snapshot",
                "table.whitelist": ",".join(f"public.{table}" for table in TABLES),
                "topic.prefix": f"{NAME}-",
                "key.columns": "id",
                "poll.interval.ms": str(_POLL_MS),
                "exactly.once.support": "required",
                "topic.creation.default.partitions": "2",
                "topic.creation.default.replication.factor": str(replicas),
                "tasks.max": str(len(TABLES)),
                **json_converters(),
            }
        }

    def wait_until_read(self) -> None:
        """Wait until all rows written so far are in Kafka: change a row in each table, and wait for these changes."""
        last = {f"public.{table}": touch(self._database, table) for table in TABLES}
        wait_for(lambda: self._has(last), CAUGHT_UP_SECONDS, what="JdbcSource has read all")

    def _has(self, batches: dict[str, str]) -> bool:
        """Whether the tables' offsets cover these transactions."""
        offsets = {found["partition"]["table"]: found["offset"] for found in _offsets(self._cluster)}
        visible = "select pg_visible_in_snapshot(%s::xid8, %s::pg_snapshot)"
        return all(
            table in offsets and self._database.execute(visible, [batch, offsets[table]["snapshot"]]) == [(True,)]
            for table, batch in batches.items()
        )

    def faults(self) -> list[str]:
        """Compare the topics with the tables; return the differences."""
        found = []
        for table in TABLES:
            records = records_by_transaction(self._cluster.bootstrap_servers, f"{NAME}-{table}")
            seen = (Seen(transaction, json.loads(record.value or b"null")) for transaction, record in records)
            found += row_faults(f"JdbcSource's {table}", seen, rows(self._database, table), Promise.LATEST, snapshots=0)
        return found


def _offsets(cluster: Cluster) -> list[Any]:
    answer = ask(cluster, f"/connectors/{NAME}/offsets")
    return [] if answer is None else list(answer["offsets"])
