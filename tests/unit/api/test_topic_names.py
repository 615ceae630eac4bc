from __future__ import annotations

import pytest

from fencepost import ConfigError, source
from fencepost.api.topic_names import is_topic_name, topic_name, topic_prefix
from fencepost.connectors.files.stream_source import FileStreamSourceConnector
from fencepost.connectors.functions.dataframes import pyspark_source
from fencepost.connectors.jdbc.connector import JdbcSourceConnector
from fencepost.connectors.postgres.changes.connector import PostgresSourceConnector
from tests.unit.connectors.support import errors_in


@pytest.mark.parametrize("name", ["a", "Orders_2026.eu-west", "...", "a" * 249])
def test_names_that_brokers_accept_are_allowed(name: str) -> None:
    assert is_topic_name(name)
    topic_name("topic", name)
    topic_name("topic", None)


@pytest.mark.parametrize("name", ["", " ", ".", "..", "two words", "a/b", "caf\u00e9", "a" * 250, "line\n", "a$b"])
def test_names_that_brokers_refuse_are_refused(name: str) -> None:
    assert not is_topic_name(name)
    with pytest.raises(ConfigError, match="the property topic: the name of a topic has 1 to 249") as caught:
        topic_name("topic", name)
    assert caught.value.name == "topic"


def test_a_prefix_leaves_room_for_the_rest() -> None:
    for prefix in ("shop.", ".", "", "a" * 248):
        topic_prefix("topic.prefix", prefix)
    for prefix in ("shop/", "a" * 249, "a b"):
        with pytest.raises(ConfigError, match="names of topics begin with it"):
            topic_prefix("topic.prefix", prefix)


class _Nothing:
    """Stands for a data source. A validation does not call it."""


def _no_rows(config: object, cursor: object) -> list[tuple[object, int]]:
    del config, cursor
    return []


@pytest.mark.parametrize(
    ("connector", "name"),
    [
        (FileStreamSourceConnector, "topic"),
        (source()(_no_rows), "topic"),
        (pyspark_source(_Nothing), "topic"),  # type: ignore[arg-type]
        (JdbcSourceConnector, "topic.prefix"),
        (PostgresSourceConnector, "topic.prefix"),
    ],
)
def test_every_source_refuses_a_topic_that_kafka_would_refuse(connector: type, name: str) -> None:
    errors = errors_in(connector(), {name: "two words"})

    assert "Invalid value 'two words'" in errors[name][0]
