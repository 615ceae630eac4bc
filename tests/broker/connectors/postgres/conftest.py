"""Fixtures for tests of PostgresSource's task."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import Database
from tests.support.postgres_task import Topics


@pytest.fixture
def topics(database: Database) -> Iterator[Topics]:
    """A task of PostgresSource on the test's database, and the events that it writes."""
    topics = Topics(database)
    yield topics
    topics.drop_slot()
