"""Fixtures for the tests of a single worker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.java_connectors import JSON, Connectors
from tests.support.java_plugins import DEBEZIUM_POSTGRES, NOTED
from tests.support.postgres import Database
from tests.support.topics import unique
from tests.support.workers import Worker, WorkerApi


@pytest.fixture
def name(worker: WorkerApi) -> Iterator[str]:
    """The name of a connector of the module's `worker`, which is deleted at the end."""
    name = unique("connector")
    yield name
    worker.request("DELETE", f"/connectors/{name}")


@pytest.fixture
def connector(worker: Worker) -> Iterator[Connectors]:
    """Starts Java connectors on the module's `worker`, and deletes them at the end."""
    with contextlib.closing(Connectors(worker)) as connectors:
        yield connectors


@pytest.fixture(params=[False, True], ids=["plain", "noted"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Empty, or the properties of a connector whose task gets the metadata of its records (commitRecord)."""
    return {"connector.class": NOTED, "notes": str(tmp_path / "notes")} if request.param else {}


@pytest.fixture
def debezium(database: Database) -> Iterator[dict[str, str]]:
    """Debezium's connector on the table `public.items` of a database."""
    slot = unique("debezium").replace("-", "_")
    yield {
        "connector.class": DEBEZIUM_POSTGRES,
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.server.port),
        "database.user": "postgres",
        "database.password": "none",
        "database.dbname": database.name,
        "topic.prefix": unique("shop"),
        "table.include.list": "public.items",
        "slot.name": slot,
        "publication.name": slot,
        "slot.retry.delay.ms": "200",
        **{f"{part}.converter": JSON for part in ("key", "value")},
        **{f"{part}.converter.schemas.enable": "false" for part in ("key", "value")},
    }
    database.drop_slot(slot)
