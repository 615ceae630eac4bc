"""A connector of changes that loses its slot: it must fail and say so, and be complete after the documented remedy."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import psycopg

from tests.chaos.soak.changes import captured_rows, connector_config, wait_until_captured
from tests.chaos.soak.clerks import NOTES, rows
from tests.chaos.soak.cluster import Cluster, ask, ask_until_done
from tests.chaos.soak.postgres import Server
from tests.chaos.soak.rows import Promise, row_faults
from tests.support.postgres_source import PostgresSource
from tests.support.processes import wait_for

# Long, because the group has faults meanwhile.
_PATIENCE_SECONDS = 300.0
_REFUSED = ("does not exist", "it takes a new snapshot")


class Audit:
    """The connector for the table `notes`, with its own slot."""

    def __init__(self, server: Server, cluster: Cluster, source: PostgresSource) -> None:
        self.source = source
        self._database = server.database
        self._cluster = cluster
        self._losses = 0
        self._one_at_a_time = threading.Lock()
        source.change(table_include_list=rf"public\.{NOTES}")

    @property
    def configs(self) -> dict[str, dict[str, str]]:
        """The connector's configuration by its name."""
        return {self.source.prefix: connector_config(self.source)}

    def lose_slot(self) -> None:
        """Drop the slot, wait until the connector has failed with the documented remedy, and apply the remedy."""
        with self._one_at_a_time:
            # The first snapshot must be committed: a slot that is lost before that would just be created again.
            self._wait_for(self._streams, "the audit streams")
            self._wait_for(self._drop_slot, "the slot of the audit is dropped")
            self._losses += 1
            self._wait_for(self._refused, "the audit fails for its slot, and names the remedy")
            self._ask("PUT", "stop")
            # The request is refused until the task has ended.
            self._ask("DELETE", "offsets")
            self._ask("PUT", "resume")

    def _ask(self, method: str, what: str) -> None:
        path = f"/connectors/{self.source.prefix}/{what}"
        ask_until_done(self._cluster, method, path, timeout=_PATIENCE_SECONDS)

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            with contextlib.suppress(psycopg.OperationalError):
                return condition()
            return False

        wait_for(holds, _PATIENCE_SECONDS, what=what)

    def _streams(self) -> bool:
        answer = ask(self._cluster, f"/connectors/{self.source.prefix}/offsets")
        offsets: list[Any] = [] if answer is None else answer["offsets"]
        return any("lsn" in found["offset"] for found in offsets)

    def _drop_slot(self) -> bool:
        self.source.drop_slot()
        return True

    def _refused(self) -> bool:
        status = ask(self._cluster, f"/connectors/{self.source.prefix}/status")
        tasks: list[Any] = [] if status is None else status["tasks"]
        traces = [str(task.get("trace")) for task in tasks if task["state"] == "FAILED"]
        return any(all(text in trace for text in _REFUSED) for trace in traces)

    def wait_until_captured(self) -> None:
        """Wait until all rows written so far are in Kafka."""
        wait_until_captured(self.source)

    def faults(self) -> list[str]:
        """Compare the topic with the table; return the differences."""
        return row_faults(
            "the audit",
            captured_rows(self.source, f"public.{NOTES}"),
            rows(self._database, NOTES),
            Promise.EACH,
            snapshots=1 + self._losses,
        )
