"""PostgreSQL over TLS. The tests' server does not have TLS, so a proxy in front of it terminates TLS."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from fencepost.api.errors import ConfigError
from fencepost.connectors.postgres.changes.connection import ConnectionSettings, PostgresError
from fencepost.connectors.postgres.server.copy_blocks import copy_messages
from tests.support.postgres import Database
from tests.support.postgres_task import Topics
from tests.support.processes import wait_for
from tests.support.security import make_certificate
from tests.support.tls_proxy import TlsProxy


def certificate(folder: Path, name: str, address: str = "127.0.0.1") -> tuple[Path, Path]:
    """A certificate, and a file with the certificate and its private key."""
    (folder / name).mkdir()
    public, private = make_certificate(folder / name, address)
    private.chmod(0o600)
    return public, private


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    return certificate(tmp_path, "server")[0]


@pytest.fixture
def secured(trusted: Path, database: Database) -> Iterator[TlsProxy]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted.with_name("broker.pem"))
    with TlsProxy(database.server.port, context) as proxy:
        yield proxy


def connect(database: Database, port: int, **options: str) -> None:
    ConnectionSettings("127.0.0.1", port, "postgres", database.name, None, options).connect().close()


def test_snapshot_and_stream_are_the_same_over_tls(trusted: Path, secured: TlsProxy, database: Database):
    topics = Topics(
        database, database_port=str(secured.port), database_sslmode="verify-full", database_sslrootcert=str(trusted)
    )
    database.execute("create table t(id int primary key, note text)")
    database.execute("insert into t select i, repeat('x', 500) from generate_series(1, 3000) i")
    topics.run()
    with topics.running():
        # More than one block of changes, in messages larger than the socket's buffer.
        database.execute("update t set note = repeat('y', 3000)")
        wait_for(lambda: len(topics.events("public.t")) == 6000, what="the updates")
        secured.reset()
        database.execute("insert into t values (0, repeat('z', 5000000))")
        wait_for(lambda: len(topics.events("public.t")) == 6001, what="the insert after the cut")

    assert topics.fatal is None
    assert secured.handshakes >= 4
    found = [(key["id"], value["op"], len(value["after"]["note"])) for key, value in topics.events("public.t")]
    numbers = range(1, 3001)
    assert sorted(found) == sorted(
        [(0, "c", 5_000_000), *((n, "r", 500) for n in numbers), *((n, "u", 3000) for n in numbers)]
    )
    topics.drop_slot()


def test_a_change_that_the_server_cannot_send_ends_the_task_over_tls(secured: TlsProxy, database: Database):
    with Database(database.server, encoding="SQL_ASCII") as other:
        topics = Topics(other, database_port=str(secured.port), database_sslmode="require")
        other.execute("create table t(id int primary key, v text)")
        topics.run()
        other.execute(r"insert into t values (1, convert_from('\xe9ff', 'SQL_ASCII'))")

        with pytest.raises(PostgresError, match=r"invalid byte sequence.*associated LSN.*correct the value.*To resync"):
            topics.run()
        topics.drop_slot()


def test_copy_over_tls_has_the_same_rows(trusted: Path, secured: TlsProxy, database: Database):
    statement = "copy (select i::bigint, repeat('d', i) from generate_series(0, {last}) i) to stdout (format {form})"

    def rows(port: int, last: int, form: str) -> list[bytes]:
        with psycopg.connect(database.conninfo, port=port, sslrootcert=str(trusted), autocommit=True) as connection:
            found = []
            for block in copy_messages(connection, statement.format(last=last, form=form), 4096):
                ends = [*block.starts[1:], block.end]
                found += [bytes(block.data[start:end]) for start, end in zip(block.starts, ends, strict=True)]
            assert connection.execute("select 1").fetchone() == (1,)
            return found

    for form in ("csv", "binary"):
        for last in (-1, 0, 500):
            plain = rows(database.server.port, last, form)
            assert rows(secured.port, last, form) == plain
            assert len(plain) == last + 1
            assert all(b"d" * number in row for number, row in enumerate(plain))
    assert secured.handshakes == 6


def test_a_server_that_another_authority_vouches_for_is_refused(secured: TlsProxy, database: Database, tmp_path: Path):
    other, _ = certificate(tmp_path, "other")
    for mode in ("verify-ca", "verify-full"):
        with pytest.raises(ConfigError, match=r"certificate.*database\.\*"):
            connect(database, secured.port, sslmode=mode, sslrootcert=str(other))
    # sslmode=require encrypts, and verifies nothing.
    connect(database, secured.port, sslmode="require")


def test_verify_full_refuses_a_certificate_for_another_address(database: Database, tmp_path: Path):
    trusted, private = certificate(tmp_path, "server", "127.0.0.9")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(private)
    with TlsProxy(database.server.port, context) as proxy:
        connect(database, proxy.port, sslmode="verify-ca", sslrootcert=str(trusted))
        with pytest.raises(ConfigError, match=r"server certificate for .* does not match"):
            connect(database, proxy.port, sslmode="verify-full", sslrootcert=str(trusted))


def test_a_client_shows_its_certificate(trusted: Path, database: Database, tmp_path: Path):
    client, private = certificate(tmp_path, "client")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # With TLS 1.3, a client learns only after the handshake that it was refused.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(trusted.with_name("broker.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(client)
    with TlsProxy(database.server.port, context) as proxy:
        own = {"sslcert": str(private), "sslkey": str(private)}
        connect(database, proxy.port, sslmode="verify-full", sslrootcert=str(trusted), **own)
        assert proxy.handshakes == 1
        with pytest.raises(Exception, match="SSL"):
            connect(database, proxy.port, sslmode="verify-full", sslrootcert=str(trusted))


def test_a_server_without_tls_is_refused_where_tls_is_required(database: Database):
    with pytest.raises(ConfigError, match="does not support SSL"):
        connect(database, database.server.port, sslmode="require")
