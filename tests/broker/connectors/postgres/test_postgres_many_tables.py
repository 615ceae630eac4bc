"""The first snapshot of PostgresSource with many tables: their topics, and long snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.postgres import Database
from tests.support.postgres_source import PostgresSource
from tests.support.processes import wait_for
from tests.support.topics import Topics

_TABLES = 20
_LAST = f"public.t{_TABLES - 1:02}"

NewSource = Callable[..., PostgresSource]


@pytest.fixture
def topics(bootstrap_servers: str) -> Topics:
    return Topics(bootstrap_servers)


@pytest.fixture
def new_source(tmp_path: Path, fault_proxy: FaultProxy, database: Database) -> Iterator[NewSource]:
    """Makes connectors whose worker reaches the broker by `fault_proxy`."""
    made: list[PostgresSource] = []

    def new(**config: str) -> PostgresSource:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(PostgresSource(folder, fault_proxy.address, database, **config))
        return made[-1]

    yield new
    for source in made:
        source.drop_slot()


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[Admin]:
    with Admin(ClientConfig((bootstrap_servers,))) as admin:
        yield admin


def with_tables(database: Database) -> None:
    """Create tables of one row each, the second one with a column `bad`, and one table without rows."""
    for number in range(_TABLES):
        database.execute(f"create table t{number:02}(id int primary key, bad numeric(4,1))")
        database.execute(f"insert into t{number:02} values (1)")  # noqa: S608 - a name of this test
    database.execute("create table empty(id int primary key)")


def test_topics_of_many_tables_are_created_together(new_source: NewSource, database: Database, fault_proxy: FaultProxy):
    with_tables(database)
    few = new_source(table_include_list=r"public\\.t00")
    few.run_to_end()
    needed = fault_proxy.requests[ApiKey.CREATE_TOPICS]
    fault_proxy.requests.clear()

    many = new_source()
    many.run_to_end()

    assert fault_proxy.requests[ApiKey.CREATE_TOPICS] == needed
    assert [len(many.events(f"public.t{number:02}")) for number in range(_TABLES)] == [1] * _TABLES


def test_topics_are_created_before_the_transaction_by_their_groups(
    new_source: NewSource, database: Database, topics: Topics
):
    with_tables(database)
    # The bad value in the second table aborts the transaction of the snapshot.
    database.execute("update t01 set bad = 'NaN'")
    source = new_source(
        topic_creation_groups="wide", topic_creation_wide_include=".*t1.*", topic_creation_wide_partitions="3"
    )

    code, output = source.run()

    assert code != 0
    assert "NaN" in output
    made = [topics.partitions(f"{source.prefix}.public.t{number:02}") for number in range(_TABLES)]
    assert made == [2] * 10 + [3] * 10
    # The topic is created with the table's first row.
    assert topics.partitions(f"{source.prefix}.public.empty") is None


@pytest.mark.parametrize(
    ("transform", "created"),
    [("ExtractNewRecordState", True), ("RegexRouter", False)],
)
def test_only_topics_that_transforms_keep_are_created_before(
    new_source: NewSource, database: Database, topics: Topics, *, transform: str, created: bool
):
    with_tables(database)
    database.execute("update t00 set bad = 'NaN'")
    source = new_source(
        transforms="x", transforms_x_type=transform, table_include_list=r"public\\.t00,public\\.t01",
        **({} if created else {"transforms_x_regex": "(.*)", "transforms_x_replacement": "$1"}),
    )  # fmt: skip

    assert source.run()[0] != 0

    assert topics.partitions(f"{source.prefix}.public.t01") == (2 if created else None)


def test_a_topic_that_cannot_be_created_fails_the_snapshot(new_source: NewSource, database: Database):
    with_tables(database)
    source = new_source(topic_creation_default_replication_factor="3")

    code, output = source.run()

    assert code != 0
    assert f"{source.prefix}.public.t00" in output
    assert "set a lower replication factor than 3" in output
    assert source.offset() is not None


def test_the_broker_creates_topics_that_the_connector_does_not(new_source: NewSource, database: Database):
    with_tables(database)
    source = new_source()
    properties = {name: value for name, value in source.properties().items() if not name.startswith("topic.creation")}
    source._config = properties

    source.run_to_end()

    assert [len(source.events(f"public.t{number:02}")) for number in range(_TABLES)] == [1] * _TABLES


def rows_are_open(source: PostgresSource, admin: Admin) -> bool:
    """Whether an open transaction has rows of the tables."""
    transactions = admin.open_transactions()
    return any(topic.startswith(source.prefix) for found in transactions for topic, _ in found.partitions)


def in_mid_snapshot(
    source: PostgresSource, fault_proxy: FaultProxy, admin: Admin, action: Callable[[], object]
) -> tuple[int, str]:
    """Run a source; call `action` while some rows are in Kafka uncommitted, and others are on their way there."""
    trap = fault_proxy.on_request(ApiKey.PRODUCE, Act.HOLD)
    with source.start() as process:
        trap.wait()
        while not rows_are_open(source, admin):
            held, trap = trap, fault_proxy.on_request(ApiKey.PRODUCE, Act.HOLD)
            held.release()
            trap.wait()
        action()
        trap.release()
        return process.wait(), process.output


def test_a_topic_that_is_deleted_meanwhile_has_its_rows(
    new_source: NewSource, database: Database, topics: Topics, fault_proxy: FaultProxy, admin: Admin
):
    with_tables(database)
    source = new_source()

    code, output = in_mid_snapshot(source, fault_proxy, admin, lambda: topics.delete(f"{source.prefix}.{_LAST}"))

    assert code == 0, output
    assert [len(source.events(f"public.t{number:02}")) for number in range(_TABLES)] == [1] * _TABLES


def test_a_snapshot_that_takes_too_long_names_the_setting(
    new_source: NewSource, database: Database, fault_proxy: FaultProxy, admin: Admin
):
    with_tables(database)
    source = new_source(producer_override_transaction_timeout_ms="5000")

    code, output = in_mid_snapshot(
        source,
        fault_proxy,
        admin,
        lambda: wait_for(lambda: not rows_are_open(source, admin), what="the coordinator aborts the transaction"),
    )

    assert code != 0
    assert "expired" in output
    assert "raise producer.override.transaction.timeout.ms" in output
    source.change(producer_override_transaction_timeout_ms="60000")
    source.run_to_end()
    assert [len(source.events(f"public.t{number:02}")) for number in range(_TABLES)] == [1] * _TABLES
