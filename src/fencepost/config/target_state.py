"""What a user wants a connector to be, under the names that the config topic and the REST API have for it."""

from __future__ import annotations

from enum import StrEnum


class TargetState(StrEnum):
    """The states that a connector can be asked for (KIP-52, KIP-875)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
