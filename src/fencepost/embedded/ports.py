"""Finds free loopback ports."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection
from typing import Final

from fencepost.embedded.errors import PortTakenError

HOST: Final = "127.0.0.1"

# The range is below the ephemeral ports (from 32768 on Linux). Otherwise a client that repeatedly connects to a broker
# that is down could get the broker's own port as its local port, and connect to itself.
_RANGE: Final = range(12_000, 32_000)


def require_free(port: int) -> None:
    """Raise PortTakenError if something listens on `port`."""
    with socket.socket() as probe:
        # The broker sets the same option: connections of an earlier broker in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTakenError(port) from error


def is_listening(port: int) -> bool:
    """Whether a program accepts connections on `port`."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def free_ports(count: int, *, besides: Collection[int] = ()) -> list[int]:
    """Return `count` ports that currently have no listener."""
    ports: list[int] = []
    for port in random.SystemRandom().sample(_RANGE, len(_RANGE)):
        if port in besides:
            continue
        try:
            require_free(port)
        except PortTakenError:
            continue
        ports.append(port)
        if len(ports) == count:
            break
    return ports
