"""A PostgreSQL server for these tests alone, which kill it and change its settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.embedded.postgres import EmbeddedPostgres
from tests.support.fault_proxy import FaultProxy
from tests.support.postgres import Database


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(settings={"wal_sender_timeout": "2s", "max_wal_size": "64MB"}) as server:
        yield server


@pytest.fixture
def database(server: EmbeddedPostgres) -> Iterator[Database]:
    with Database(server) as database:
        yield database


@pytest.fixture
def proxy(server: EmbeddedPostgres) -> Iterator[FaultProxy]:
    proxy = FaultProxy(server.port, framed=False).start()
    yield proxy
    proxy.stop()
