"""The start of a replication stream on a server that does not answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from fencepost.api.errors import RetriableError
from fencepost.connectors.postgres.changes.connection import ConnectionSettings
from fencepost.connectors.postgres.changes.position import Position
from fencepost.connectors.postgres.changes.stream.decoder import Decoder
from fencepost.connectors.postgres.changes.stream.stream import ReplicationStream
from tests.support.postgres import Database


def pass_on(source: socket.socket, target: socket.socket) -> None:
    """Forward data up to START_REPLICATION, and nothing from there on."""
    with contextlib.suppress(OSError):
        while (data := source.recv(65_536)) and b"START_REPLICATION" not in data:
            target.sendall(data)


@pytest.fixture
def frozen(database: Database) -> Iterator[int]:
    """The port of a proxy whose server stops answering when a stream starts."""
    with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as opened:

        def serve() -> None:
            with contextlib.suppress(OSError):
                client = opened.enter_context(listening.accept()[0])
                server = opened.enter_context(socket.create_connection(("127.0.0.1", database.server.port)))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=pass_on, args=ends, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


def test_a_server_that_freezes_as_a_stream_starts_is_tried_again(
    database: Database, frozen: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("fencepost.connectors.postgres.changes.stream.stream._ANSWER_S", 0.5)
    settings = ConnectionSettings("127.0.0.1", frozen, "postgres", database.name, options={"sslmode": "disable"})

    with pytest.raises(RetriableError, match="timed out"):
        ReplicationStream(settings, "slot", "publication", Decoder(Position(1)), Position(1))
