"""What tests of PostgresSource's task share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import Database
from tests.support.postgres_task import Topics


@pytest.fixture
def topics(database: Database) -> Iterator[Topics]:
    """A task of PostgresSource on the test's database, and what it writes."""
    topics = Topics(database)
    yield topics
    topics.drop_slot()
