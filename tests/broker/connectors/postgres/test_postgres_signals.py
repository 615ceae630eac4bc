"""Signals of PostgresSource: rows of a table that start, pause and stop incremental snapshots, on a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.connectors.postgres.changes.connection import PostgresError
from tests.support.incremental import before_chunk, read_rows, send, signalled_topics
from tests.support.postgres import Database
from tests.support.postgres_task import Topics


@pytest.fixture
def topics(database: Database) -> Iterator[Topics]:
    with signalled_topics(database) as topics:
        yield topics


def test_signals_without_effect_are_logged_and_the_stream_continues(
    topics: Topics, database: Database, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    database.execute("create table t(id int primary key); create table bare(id int); insert into t values (1)")
    topics.change(snapshot_mode="no_data")
    topics.run()

    def condition(text: str) -> list[dict[str, str]]:
        return [{"data-collection": "public.t", "filter": text}]

    send(database, "bare", data_collections=["public.bare"])
    send(database, "nobody", data_collections=["public.nobody"])
    send(database, "blocking", data_collections=["public.t"], type="blocking")
    send(database, "wrong", data_collections=["public.t"], additional_conditions=condition("nothing = 1"))
    two = condition("true), false) FROM public.t; DROP TABLE public.t; SELECT ((true")
    send(database, "two", data_collections=["public.t"], additional_conditions=two)
    send(database, "unknown", "schema-changes")
    topics.run()
    send(database, "pause", "pause-snapshot")
    send(database, "told", "log", message="here: {}")
    database.execute("insert into t values (2)")
    topics.run()

    assert [(key, value["op"]) for key, value in topics.events("public.t")] == [({"id": 2}, "c")]
    for said in (
        "'bare': The table public.bare has no primary key", "'nobody' of type 'execute-snapshot' is ignored",
        "the type blocking", "'wrong': A statement failed", "'two': A statement failed",
        "the types that are supported are execute-snapshot, stop-snapshot, pause-snapshot, resume-snapshot, log",
        "'pause' of type 'pause-snapshot' has no effect", 'here: {"slot"',
    ):  # fmt: skip
        assert any(said in message for message in caplog.messages)
    assert database.execute("select count(*) from t") == [(2,)]


def test_a_snapshot_is_paused_resumed_and_stopped_by_signals(topics: Topics, database: Database):
    for name in ("a", "b"):
        database.execute(f"create table {name}(id int primary key)")
        database.execute(f"insert into {name} select i from generate_series(1, 40) i")  # noqa: S608
    topics.change(snapshot_mode="no_data", incremental_snapshot_chunk_size="1")
    topics.run()
    send(database, "s-1", data_collections=["public.(a|b)"])
    send(database, "s-2", "pause-snapshot")
    topics.run()
    # The pause outlives the task.
    count = len(read_rows(topics, "public.a"))
    topics.run()
    assert len(read_rows(topics, "public.a")) == count < 40
    send(database, "s-3", "stop-snapshot", data_collections=["public.b"])
    send(database, "s-4", "resume-snapshot")
    topics.run()

    assert [row["id"] for row in read_rows(topics, "public.a")] == list(range(1, 41))
    assert read_rows(topics, "public.b") == []
    assert "incremental_snapshot" not in (topics.committed_offset or {})


def test_a_request_that_equals_a_stopped_one_reads_the_table_from_its_start(
    topics: Topics, database: Database, monkeypatch: pytest.MonkeyPatch
):
    database.execute("create table t(id int primary key); insert into t select generate_series(1, 10)")
    topics.change(snapshot_mode="no_data")
    topics.run()
    # The signals come before the last chunk is read. If they came after that, the stream might have passed its end.
    again = (
        "insert into signals values ('s-2', 'stop-snapshot', null); update signals set id = 's-0' where id = 's-1'; "
    )
    again += """insert into signals values ('s-1', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
    before_chunk(monkeypatch, "public.t", 2, lambda: database.execute(again))
    send(database, "s-1", data_collections=["public.t"])
    topics.run()

    assert [row["id"] for row in read_rows(topics, "public.t")] == [*range(1, 8), *range(1, 11)]


def test_the_table_of_signals_is_published_or_the_start_refused(topics: Topics, database: Database):
    database.execute("create table t(id int primary key)")
    filtered = {"publication_autocreate_mode": "filtered", "table_include_list": r"public\.t", "table_exclude_list": ""}
    topics.change(snapshot_mode="no_data", **filtered)
    topics.run()
    topics.run()
    assert database.execute("select tablename from pg_publication_tables order by 1") == [("signals",), ("t",)]

    database.execute("drop publication dbz_publication; create publication dbz_publication for table t")
    topics.change(publication_autocreate_mode="disabled")
    topics.committed_offset = None
    topics.drop_slot()
    with pytest.raises(PostgresError, match=r"lacks the table public\.signals"):
        topics.run()
