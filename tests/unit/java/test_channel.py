"""A connection to the JVM host: a message is received completely, or the JVM has ended."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import closing

import pytest

from fencepost.java.channel import Channel
from fencepost.java.errors import JavaError, JvmEndedError

ANSWER = json.dumps({"rows": 1}).encode()
WHOLE = struct.pack("<iq", len(ANSWER), 8) + ANSWER + b"12345678"


@pytest.fixture
def pair() -> Iterator[tuple[Channel, socket.socket]]:
    ours, host = socket.socketpair()
    with closing(Channel(ours, lambda: JvmEndedError("it has ended"))) as channel, closing(host):
        yield channel, host


def test_an_answer_has_its_buffers(pair: tuple[Channel, socket.socket]):
    channel, host = pair
    host.sendall(WHOLE)
    answer, buffers = channel.call("poll", "poll() failed")
    assert (answer, bytes(buffers)) == ({"rows": 1}, b"12345678")
    assert host.recv(100)[4:] == b'{"op": "poll"}'


def test_an_answer_that_nobody_received_is_dropped_by_a_call(pair: tuple[Channel, socket.socket]):
    channel, host = pair
    host.sendall(WHOLE + struct.pack("<iq", 2, 0) + b"{}")
    channel.ask("poll", ms=1)
    assert channel.call("close", "close() failed")[0] == {}
    assert host.recv(100).count(b'"op"') == 2


def test_an_answer_is_received_after_it_was_asked_for(pair: tuple[Channel, socket.socket]):
    channel, host = pair
    channel.ask("poll", ms=1)
    host.sendall(WHOLE + WHOLE)
    assert channel.answer("poll() failed")[0] == {"rows": 1}
    assert channel.call("poll", "poll() failed")[0] == {"rows": 1}


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_an_answer_that_breaks_off_is_the_end_of_the_jvm(pair: tuple[Channel, socket.socket], size: int):
    channel, host = pair
    host.sendall(WHOLE[:size])
    host.close()
    with pytest.raises(JvmEndedError):
        channel.receive()


def test_an_exception_in_java_is_raised_with_its_trace(pair: tuple[Channel, socket.socket]):
    channel, host = pair
    told = {"error": "java.lang.Error: no", "trace": "at Here", "retriable": False, "unsupported": True}
    text = json.dumps(told).encode()
    host.sendall(struct.pack("<iq", len(text), 0) + text)
    with pytest.raises(JavaError, match=r"poll\(\) failed: java\.lang\.Error: no") as caught:
        channel.call("poll", "poll() failed")
    assert caught.value.unsupported
    assert caught.value.__notes__ == ["at Here"]


def test_a_limit_of_zero_is_a_limit_and_not_the_end_of_the_jvm(pair: tuple[Channel, socket.socket]):
    channel, _ = pair
    channel.limit(0)
    with pytest.raises(TimeoutError):
        channel.call("stop", "stop() failed")
