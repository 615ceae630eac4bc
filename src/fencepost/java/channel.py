"""A connection to the host program in a JVM: requests and answers, one at a time.

A request is its length (4 bytes) and JSON. An answer is the lengths of both parts (4 and 8 bytes), then JSON, then the
buffers of Arrow arrays. Numbers are little-endian. On a connection for events, the host asks and the worker answers.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.java.errors import java_error

_REQUEST: Final = struct.Struct("<i")
_ANSWER: Final = struct.Struct("<iq")
_SHORTEST_S: Final = 0.001


class Channel:
    """A connection, for one thread at a time. `ended` returns the error to raise if the host has ended."""

    def __init__(self, connection: socket.socket, ended: Callable[[], Exception]) -> None:
        self._socket = connection
        self._ended = ended
        self._asked = False

    def call(self, operation: str, what: str, /, **request: Any) -> tuple[dict[str, Any], memoryview]:
        """Send a request, and return its answer and the answer's buffers. `what` names the call in errors.

        If an earlier `ask` has an answer that nobody has received, that answer is dropped. Raises JavaError for an
        exception in Java, the error of `ended` if the host has ended, and TimeoutError as set by `limit`.
        """
        if self._asked:
            self.receive()
        self.ask(operation, **request)
        return self.answer(what)

    def ask(self, operation: str, /, **request: Any) -> None:
        """Send a request. `answer` receives its answer later. Raises the error of `ended`, and TimeoutError."""
        self.send({"op": operation, **request})
        self._asked = True

    def answer(self, what: str) -> tuple[dict[str, Any], memoryview]:
        """Receive the answer to `ask`. Raises the errors of `call`."""
        answer, buffers = self.receive()
        self._asked = False
        if "error" in answer:
            raise java_error(what, answer)
        return answer, buffers

    def limit(self, seconds: float | None) -> None:
        """Let calls raise TimeoutError after this many seconds without data.

        After a TimeoutError, the channel cannot be used any more.
        """
        # With a time-out of 0, the socket would not wait at all, and would raise another error.
        self._socket.settimeout(None if seconds is None else max(seconds, _SHORTEST_S))

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a request, or the answer to an event."""
        text = json.dumps(message).encode()
        try:
            self._socket.sendall(_REQUEST.pack(len(text)) + text)
        except TimeoutError:
            raise
        except OSError as error:
            raise self._ended() from error

    def receive(self) -> tuple[dict[str, Any], memoryview]:
        """Receive an answer, or an event."""
        head, body = _ANSWER.unpack(self._exactly(_ANSWER.size))
        answer: dict[str, Any] = json.loads(bytes(self._exactly(head)))
        return answer, self._exactly(body)

    def _exactly(self, size: int) -> memoryview:
        data, at = memoryview(bytearray(size)), 0
        while at < size:
            try:
                received = self._socket.recv_into(data[at:])
            except TimeoutError:
                raise
            except OSError as error:
                raise self._ended() from error
            if not received:
                raise self._ended()
            at += received
        return data

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
