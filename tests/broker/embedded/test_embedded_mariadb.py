"""The MariaDB of the demo and of tests: real programs, real data."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.embedded.errors import JarsUnavailableError, MariaDbError, MariaDbMissingError
from fencepost.embedded.mariadb import EmbeddedMariaDb, installed_programs


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMariaDb]:
    # The path is longer than a Unix socket's may be.
    folder = tmp_path_factory.mktemp("mariadb" * 15)
    with EmbeddedMariaDb(folder) as server:
        server.execute("create database shop; create table shop.items (id int primary key, name varchar(9))")
        yield server


def test_a_session_sees_its_own_rows_and_others_only_committed_ones(mariadb: EmbeddedMariaDb):
    with mariadb.session() as session:
        session.execute("use shop; set autocommit=0; insert into items values (1, 'naïve')")
        session.commit()
        session.execute("insert into items values (2, 'two')")
        session.rollback()
        session.execute("insert into items values (3, 'three')")
        assert session.execute("select id, name from items order by id") == [["1", "naïve"], ["3", "three"]]
    assert mariadb.execute("select id, name from shop.items") == [["1", "naïve"]]


def test_a_refused_statement_raises_in_the_words_of_the_server(mariadb: EmbeddedMariaDb):
    with mariadb.session() as session:
        with pytest.raises(MariaDbError, match=r"refused a statement: .*Table 'shop.nothing' doesn't exist"):
            session.execute("select * from shop.nothing")
        with pytest.raises(MariaDbError, match="refused a statement"):
            session.execute("select 1")


def test_a_server_whose_data_are_no_database_ends_with_its_last_error(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "ibdata1").write_bytes(b"no table space")
    server = EmbeddedMariaDb(tmp_path)
    with pytest.raises(MariaDbError, match=r"did not start: .*\[ERROR\].*\(more in .*mariadb.log\)"):
        server.start()


def test_a_machine_that_the_programs_are_not_for_is_told_which_one_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(MariaDbMissingError, match=r"Linux on x86-64, and this is Linux on aarch64: use such a machine"):
        installed_programs()


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(JarsUnavailableError, match=r"cannot keep the jars of MariaDB .*XDG_CACHE_HOME"):
        installed_programs()
