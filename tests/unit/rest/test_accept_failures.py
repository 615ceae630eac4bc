from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import ExitStack, closing

import pytest

from fencepost.config import file_descriptors
from fencepost.rest.accept_failures import AcceptFailures
from tests.support.descriptors import few_descriptors, take_descriptors

few = pytest.fixture(few_descriptors)
BACKLOG = 128


def test_connections_are_accepted_when_all_other_files_are_open(few: int, caplog: pytest.LogCaptureFixture):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def ask() -> bytes:
        loop = asyncio.get_running_loop()
        failures = AcceptFailures(loop)
        failures.start()
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=BACKLOG)
        with closing(socket.socket()) as client, ExitStack() as stack:
            client.setblocking(False)
            take_descriptors(stack, file_descriptors.free())
            await loop.sock_connect(client, server.sockets[0].getsockname())
            await loop.sock_sendall(client, b"asked\n")
            received = await asyncio.wait_for(loop.sock_recv(client, 100), 30)
        server.close()
        await server.wait_closed()
        failures.stop()
        return received

    with caplog.at_level(logging.INFO):
        assert asyncio.run(ask()) == b"asked\n"
    assert [str(few) in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.usefixtures("few")
def test_another_fault_of_the_loop_is_logged_as_before(caplog: pytest.LogCaptureFixture):
    async def fail() -> None:
        loop = asyncio.get_running_loop()
        failures = AcceptFailures(loop)
        failures.start()
        loop.call_exception_handler({"message": "another fault"})
        failures.stop()
        assert loop.get_exception_handler() is None

    with caplog.at_level(logging.INFO):
        asyncio.run(fail())
    assert [record.getMessage() for record in caplog.records] == ["another fault"]
