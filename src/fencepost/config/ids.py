"""Names of the parts of a connector, for all layers."""

from __future__ import annotations

from typing import NamedTuple


class ConnectorTaskId(NamedTuple):
    """Names a task: its connector, and its number from 0."""

    # The class is a named tuple, for speed: each rebalance hashes and compares the ids of all tasks of the group many
    # times.

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"

    def transactional_id(self, group_id: str) -> str:
        """Return the transactional id that the task owns (KIP-618)."""
        return f"{group_id}-{self.connector}-{self.task}"
