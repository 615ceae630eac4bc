"""A broker of transaction version 1 behind a proxy that can cause faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.properties import CLIENT, BrokerListener
from tests.support.fault_proxy import FaultProxy

_PROXIED = "PROXIED"
_FEATURE = ("--feature", "transaction.version=1")


@contextmanager
def proxied_v1_broker(folder: Path, *, verifying: bool) -> Iterator[tuple[EmbeddedBroker, FaultProxy]]:
    """Start a broker that verifies that a transaction is open, or accepts records without that (before 3.6)."""
    proxy = FaultProxy().start()
    listeners = (BrokerListener(CLIENT), BrokerListener(_PROXIED, advertised_ports=[proxy.port]))
    properties = {"transaction.partition.verification.enable": str(verifying).lower()}
    with EmbeddedBroker(folder, listeners=listeners, properties=properties, format_arguments=_FEATURE) as broker:
        proxy.upstream = broker.nodes[0].place.ports[_PROXIED]
        yield broker, proxy
    proxy.stop()
