"""Properties of JdbcSource: contradictions between them, and the address in a JDBC URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.context import ExactlyOnceSupport
from fencepost.api.errors import ConfigError
from fencepost.connectors.jdbc.connection import PostgresAddress
from fencepost.connectors.jdbc.connector import JdbcSourceConnector
from fencepost.connectors.jdbc.drivers import check_url
from fencepost.connectors.jdbc.properties import JdbcConfig, table_name

NEEDED = {"connection.url": "jdbc:postgresql://db/shop", "topic.prefix": "shop-"}


def address(url: str, allowed: AllowedPaths = ANYWHERE, **values: Any) -> dict[str, str]:
    given = {"connection.url": url, "connection.user": None, "connection.password": None} | values
    return dict(PostgresAddress.of(given, allowed).parameters)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:postgresql://db/shop", {"host": "db", "port": "5432", "dbname": "shop"}),
        ("jdbc:postgresql://db:6000/", {"host": "db", "port": "6000", "dbname": "postgres"}),
        ("jdbc:postgresql://a,b:6000,[::1]:7000/s%20p", {"host": "a,b,::1", "port": "5432,6000,7000", "dbname": "s p"}),
        ("jdbc:postgresql://db/shop?ssl=true", {"sslmode": "verify-full"}),
        ("jdbc:postgresql://db/shop?user=me&password=p%26", {"user": "me", "password": "p&"}),
        ("jdbc:postgresql://db/s?currentSchema=a%20b,c", {"options": "-c search_path=a\\ b,c"}),
        ("jdbc:postgresql://db/s?targetServerType=primary", {"target_session_attrs": "primary"}),
        (
            "jdbc:postgresql://db/s?ApplicationName=f&connectTimeout=3",
            {"application_name": "f", "connect_timeout": "3"},
        ),
    ],
)
def test_a_jdbc_url_becomes_parameters_of_libpq(url: str, expected: dict[str, str]) -> None:
    assert expected.items() <= address(url).items()


def test_user_and_password_of_the_properties_win_and_are_not_shown() -> None:
    values = {
        "connection.url": "jdbc:postgresql://db/s?user=a&password=b",
        "connection.user": "c",
        "connection.password": "secret",
    }

    found = PostgresAddress.of(values, ANYWHERE)

    assert (found.parameters["user"], found.parameters["password"]) == ("c", "secret")
    assert "secret" not in repr(found)


def test_the_representation_of_the_properties_has_no_password() -> None:
    config = JdbcConfig.parse(NEEDED | {"connection.user": "c", "connection.password": "secret"})
    assert config.values["connection.password"] == "secret"
    assert "secret" not in repr(config)


@pytest.mark.parametrize(
    "url", ["jdbc:postgresql:shop", "jdbc:postgresql://a:b/c", "jdbc:postgresql://db/s?loggerLevel=x"]
)
def test_a_url_that_is_not_understood_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"The property connection.url"):
        address(url)


def test_a_file_of_a_url_must_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    allowed = AllowedPaths.of([str(tmp_path / "in")])

    assert address(f"jdbc:postgresql://db/s?sslrootcert={tmp_path}/in/ca.pem", allowed)
    with pytest.raises(ConfigError, match=r"The parameter sslkey of the property connection.url is refused"):
        address(f"jdbc:postgresql://db/s?sslkey={tmp_path}/key", allowed)


def test_a_database_in_a_file_must_be_allowed_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    allowed = AllowedPaths.of([str(tmp_path)])

    for url in (
        f"jdbc:sqlite:{tmp_path}/a.db",
        f"jdbc:sqlite:file:{tmp_path}/a.db?mode=ro",
        f"jdbc:sqlite:file://localhost{tmp_path}/a%20b.db#part",
        "jdbc:mariadb://db/shop",
    ):
        check_url(url, allowed)
    for url in (
        "jdbc:sqlite:/etc/a.db",
        "JDBC:sqlite:/etc/a.db",
        "jdbc:sqlite:file:/etc/a.db",
        "jdbc:sqlite:file:///etc/a.db",
        f"jdbc:sqlite:file:{tmp_path}/sub%2f..%2f..%2fa.db",
        f"jdbc:sqlite:file:{tmp_path}/a.db%00",
        f"jdbc:sqlite::resource:file:{tmp_path}/a.db",
        "jdbc:sqlite::RESOURCE:http://db/a.db",
        "jdbc:h2:file:/etc/a",
    ):
        with pytest.raises(ConfigError, match=r"The property connection.url is (refused|for a database 'h2')"):
            check_url(url, allowed)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"table.whitelist": "a", "table.blacklist": "b"}, "table.blacklist"),
        ({"mode": "bulk", "query": "select 1", "table.whitelist": "a"}, "query"),
        ({"query": "select 1"}, "query"),
        ({"query.suffix": "limit 4"}, "query.suffix"),
        ({"connection.url": "jdbc:sqlite:a.db", "mode": "bulk", "query.suffix": "limit 4"}, "query.suffix"),
        ({"mode": "timestamp"}, "timestamp.column.name"),
        ({"mode": "incrementing", "query": "select 1"}, "incrementing.column.name"),
        ({"table.types": "VIEW"}, "table.types"),
        ({"mode": "newest"}, "mode"),
        ({"db.timezone": "Mars/Olympus"}, "db.timezone"),
        ({"connection.url": "postgresql://db"}, "connection.url"),
        ({"connection.url": "jdbc:sqlite:a.db"}, "mode"),
        ({"connection.url": "jdbc:sqlite:a.db", "mode": "bulk"}, "table.whitelist"),
        (
            {"connection.url": "jdbc:sqlite:a.db", "mode": "incrementing", "query": "select 1"},
            "incrementing.column.name",
        ),
    ],
)
def test_a_contradiction_is_named_with_its_property(config: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        JdbcConfig.parse(NEEDED | config)

    assert refused.value.name == name


def test_an_unsupported_property_is_refused_with_the_behaviour_here() -> None:
    with pytest.raises(ConfigError, match=r"table.poll.interval.ms is not supported: tables are found when"):
        JdbcConfig.parse(NEEDED | {"table.poll.interval.ms": "1000"})


def test_a_password_before_the_host_is_refused_and_not_shown() -> None:
    with pytest.raises(
        ConfigError, match=r"user before its host.*connection\.user and connection\.password"
    ) as refused:
        address("jdbc:postgresql://me:hidden@db:5432/shop")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        (f"shop.orders,shop.{'x' * 250}", r"table shop\.x+ would go to .* 'shop-x+', but .* 249 .*query"),
        ("shop.order lines,old.order_lines", r"'shop\.order lines' and 'old\.order_lines' would .* shop-order_lines\."),
    ],
)
def test_tables_of_other_databases_without_a_topic_of_their_own_are_refused(tables: str, problem: str) -> None:
    config = NEEDED | {"connection.url": "jdbc:mariadb://db/shop", "mode": "bulk"}
    accepted = JdbcConfig.parse(config | {"table.whitelist": 'shop.orders,"shop"."order lines"'})
    assert [accepted.topic(table_name(table)) for table in accepted.whitelist] == ["shop-orders", "shop-order_lines"]

    with pytest.raises(ConfigError, match=problem) as refused:
        JdbcConfig.parse(config | {"table.whitelist": tables})
    assert refused.value.name == "table.whitelist"


@pytest.mark.parametrize(
    ("config", "support"),
    [
        ({}, ExactlyOnceSupport.SUPPORTED),
        ({"mode": "bulk"}, ExactlyOnceSupport.SUPPORTED),
        ({"mode": "incrementing"}, ExactlyOnceSupport.UNSUPPORTED),
        ({"mode": "timestamp+incrementing", "timestamp.column.name": "at"}, ExactlyOnceSupport.UNSUPPORTED),
        ({"mode": "incrementing", "single.writer": "true"}, ExactlyOnceSupport.SUPPORTED),
    ],
)
def test_modes_that_lose_rows_do_not_support_exactly_once(config: dict[str, str], support: ExactlyOnceSupport) -> None:
    assert JdbcSourceConnector().exactly_once_support(NEEDED | config) is support
