"""Warns of unreachable brokers while clients keep retrying."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_LOG: Final = logging.getLogger(__name__)

PATIENCE_S: Final = 3.0
"""How long brokers may be silent before a warning, because restarts and elections take a moment."""

_INTERVAL_S: Final = 30.0

# The last warning of each cluster. One process has many clients of a cluster, and all of them see the same silence.
_TOLD_AT: Final[dict[str, float]] = {}


@dataclass(frozen=True, slots=True)
class _Silence:
    """When brokers of a cluster stopped answering, and when a client last noticed it, on the monotonic clock."""

    since: float
    noticed: float


_SILENCES: Final[dict[str, _Silence]] = {}


def warn_while_unreachable(bootstrap_servers: Sequence[str], since: float) -> None:
    """Record that no broker has answered since a moment on the monotonic clock, and warn of it.

    There is no warning in the first seconds, and then at most one in 30 s for each cluster. A silence may last over
    several requests, until `note_answer`.
    """
    servers = ",".join(bootstrap_servers)
    now = time.monotonic()
    before = _SILENCES.get(servers)
    # There were no requests for a while: the brokers may have been available in between.
    if before is not None and since - before.noticed < _INTERVAL_S:
        since = min(since, before.since)
    _SILENCES[servers] = _Silence(since, now)
    told_at = _TOLD_AT.get(servers)
    if now - since < PATIENCE_S or (told_at is not None and now - told_at < _INTERVAL_S):
        return
    _TOLD_AT[servers] = now
    _LOG.warning(
        "No Kafka broker has answered at bootstrap.servers=%s for %.0f s; retrying: check that the brokers run, "
        "that this is their address, and that security.protocol is the one of that port", servers, now - since,
    )  # fmt: skip


def note_answer(bootstrap_servers: Sequence[str]) -> None:
    """Record that a broker of the cluster has answered."""
    _SILENCES.pop(",".join(bootstrap_servers), None)


def silent_seconds(bootstrap_servers: Sequence[str]) -> float:
    """Return for how long the brokers of a cluster have not answered; 0 if the last request was answered."""
    silence = _SILENCES.get(",".join(bootstrap_servers))
    return 0.0 if silence is None else time.monotonic() - silence.since
