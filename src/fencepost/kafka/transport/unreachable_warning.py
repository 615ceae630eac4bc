"""Warns about unreachable brokers while clients keep retrying."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

_LOG: Final = logging.getLogger(__name__)

PATIENCE_S: Final = 3.0
"""How long brokers may be silent before a warning: restarts and elections take a moment."""

_INTERVAL_S: Final = 30.0

# One process has many clients of a cluster, and all of them see the same silence.
_TOLD_AT: Final[dict[str, float]] = {}


def warn_while_unreachable(bootstrap_servers: Sequence[str], since: float) -> None:
    """Warn that no broker has answered since a moment on the monotonic clock.

    There is no warning in the first seconds, and at most one within 30 s for each cluster.
    """
    servers = ",".join(bootstrap_servers)
    now = time.monotonic()
    told_at = _TOLD_AT.get(servers)
    if now - since < PATIENCE_S or (told_at is not None and now - told_at < _INTERVAL_S):
        return
    _TOLD_AT[servers] = now
    _LOG.warning(
        "No Kafka broker has answered at bootstrap.servers=%s for %.0f s; retrying: check that the brokers run, "
        "that this is their address, and that security.protocol is the one of that port", servers, now - since,
    )  # fmt: skip
