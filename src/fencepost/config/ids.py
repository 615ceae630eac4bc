"""How parts of a connector are named, for all layers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class ConnectorTaskId:
    """Names a task: its connector, and its number from 0."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"

    def transactional_id(self, group_id: str) -> str:
        """Return the transactional id that the task owns (KIP-618)."""
        return f"{group_id}-{self.connector}-{self.task}"
