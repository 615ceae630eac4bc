from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from fencepost.config import file_descriptors
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.errors import BrokerUnavailableError, NoDescriptorError
from fencepost.kafka.transport.connection import Connection
from tests.support.descriptors import few_descriptors, take_descriptors

few = pytest.fixture(few_descriptors)


@pytest.mark.parametrize("left", [0, 1, 3])
def test_connections_do_not_take_the_last_file_descriptors(few: int, left: int):
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:
        address = server.getsockname()
        config = ClientConfig((f"127.0.0.1:{address[1]}",))
        take_descriptors(stack, file_descriptors.free() - left)
        with pytest.raises(NoDescriptorError, match=f"broker 127.0.0.1:{address[1]}.* {few} files") as raised:
            Connection(address, config)
        assert isinstance(raised.value, BrokerUnavailableError)
        assert file_descriptors.free() == left
