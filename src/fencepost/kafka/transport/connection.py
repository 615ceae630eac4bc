"""One synchronous connection to one broker: TLS, SASL, and requests made with kafka-python's protocol classes.

Requests are answered in the order in which they were sent (https://kafka.apache.org/protocol#protocol_network), so
several may be in flight. After any error, a connection is closed and never used again. The outcome of requests in
flight is unknown then, and the caller must handle that.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from kafka.net.sasl import get_sasl_mechanism  # noqa: TID251 - SASL's mechanisms, which do no I/O
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from fencepost.config.file_descriptors import is_exhaustion, is_reserved
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    NoDescriptorError,
    UnsupportedBrokerError,
)
from fencepost.kafka.precedence import HEARTBEAT
from fencepost.kafka.transport.error_codes import decode, response_class
from fencepost.version import __version__

Buffer = bytes | bytearray | memoryview
"""The buffer type of `socket.sendmsg`."""

Address = tuple[str, int]
"""A broker's host and port."""

_UNSUPPORTED_VERSION: Final = 35
_RECEIVE_BYTES: Final = 262_144
_SENDMSG_PARTS: Final = 512
"""The number of parts that are sent at once. Linux accepts at most 1,024 (IOV_MAX)."""


@dataclass(slots=True)
class _Pending:
    correlation_id: int
    response: Any
    version: int
    sent_at: float
    tag: Any


def too_old(broker: str, request: Any, highest: int, needed: int) -> UnsupportedBrokerError:
    """Return the error for a broker that only supports versions of a request below the needed one."""
    known = f"knows {request.__name__.removesuffix('Request')} up to version {highest}"
    if highest < 0:
        known = f"does not know {request.__name__.removesuffix('Request')}"
    return UnsupportedBrokerError(
        f"The broker {broker} {known}, and exactly-once delivery needs version {needed} (Kafka 2.5, or a broker with the same "
        "requests): upgrade the brokers, or use others by bootstrap.servers"
    )


class Connection:
    """A connection that is ready for requests. Not thread-safe."""

    def __init__(
        self,
        address: Address,
        config: ClientConfig,
        *,
        deadline: Deadline | None = None,
        opening: Callable[[Connection], None] = lambda _: None,
    ) -> None:
        """Connect, request the broker's versions, and authenticate.

        Each step takes `socket.connection.setup.timeout.ms` at most, and ends with the deadline. `opening` is called
        with the connection as soon as its socket is open: from then on it can be interrupted. Raises
        BrokerUnavailableError, AuthenticationError, or ConfigError for unusable certificates.
        """
        self.address = address
        self.closed = False
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.features: Mapping[str, int] = {}
        self._config = config
        self._correlation_ids = count(1)
        self._pending: deque[_Pending] = deque()
        self._muted_until: float | None = None
        self._session_ends: float | None = None
        self._used_at = time.monotonic()
        self._received = bytearray()
        self._setup_deadline = deadline
        self._socket = self._open()
        try:
            opening(self)
            self._handshake()
        except BaseException:
            self.close()
            raise
        self._socket.settimeout(config.request_timeout_ms / 1000)

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """The number of unanswered requests."""
        return len(self._pending)

    @property
    def fit_for_reuse(self) -> bool:
        """Whether another user can take this connection.

        The connection must have no request in flight, and neither its idle time nor its SASL session may have expired.
        """
        now = time.monotonic()
        idle_s = self._config.connections_max_idle_ms / 1000
        expired = self._session_ends is not None and now >= self._session_ends
        return not self.closed and not self._pending and not expired and now < self._used_at + idle_s

    @property
    def tags_in_flight(self) -> list[Any]:
        """The tags of the unanswered requests, oldest first."""
        return [pending.tag for pending in self._pending]

    def fileno(self) -> int:
        """The descriptor of the socket, for waiting."""
        return self._socket.fileno()

    @property
    def answer_waiting(self) -> bool:
        """Whether received bytes are buffered in memory, where polling the socket does not see them."""
        return bool(self._received) or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0)

    @property
    def answer_due_at(self) -> float:
        """The moment on the monotonic clock at which the oldest request will have waited for `request.timeout.ms`."""
        return self._pending[0].sent_at + self._config.request_timeout_ms / 1000

    def broken_while_idle(self) -> bool:
        """Whether the broker has closed the connection. An idle connection becomes readable only when it ends."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close the socket. Requests in flight are never answered."""
        self.closed = True
        self._socket.close()

    def interrupt(self) -> None:
        """Break the connection. Any thread may call this. A thread that waits for an answer then stops waiting."""
        # The socket is not closed, because its descriptor could be reused before the other thread waits for it again.
        # There is no TLS shutdown either, because the TLS object must not be used by two threads at once.
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    # -- requests -----------------------------------------------------------------------------------------------

    def version(self, request: Any, *, at_most: int | None = None, at_least: int = 0) -> int:
        """Return the highest version of a request class that both sides support. Raises UnsupportedBrokerError."""
        lowest, highest = self.versions.get(request.API_KEY, (0, -1))
        version = min(highest, request.max_version if at_most is None else at_most)
        if 0 <= version < at_least:
            raise too_old(f"{self.address[0]}:{self.address[1]}", request, highest, at_least)
        if version < lowest:
            raise UnsupportedBrokerError(
                f"The broker {self.address[0]}:{self.address[1]} does not know {request.__name__} in a version that "
                "fencepost knows: use Kafka 2.5 or later"
            )
        return version

    def call(self, request: Any, *, at_most: int | None = None, deadline: Deadline | None = None) -> Any:
        """Send a request and return its answer. Raises the errors of `receive`."""
        self.send(request, at_most=at_most)
        return self.receive(deadline)[1]

    def send(self, request: Any, *, at_most: int | None = None, at_least: int = 0, tag: Any = None) -> None:
        """Send a request without waiting for its answer."""
        version = self.version(type(request), at_most=at_most, at_least=at_least)
        correlation_id = next(self._correlation_ids)
        request.API_VERSION = version
        request.with_header(correlation_id=correlation_id, client_id=self._config.client_id)
        frame = request.encode(header=True, framed=True)
        self._send([frame], _Pending(correlation_id, response_class(request), version, 0.0, tag))

    def send_parts(self, request: Any, version: int, parts: Sequence[Buffer], *, flexible: bool, tag: Any) -> None:
        """Send a request whose encoded body is `parts`, without copying them."""
        correlation_id = next(self._correlation_ids)
        client_id = self._config.client_id.encode()
        header = struct.pack(">hhih", request.API_KEY, version, correlation_id, len(client_id)) + client_id
        if flexible:
            header += b"\0"
        size = len(header) + sum(len(part) for part in parts)
        pending = _Pending(correlation_id, response_class(request), version, 0.0, tag)
        self._send([struct.pack(">i", size) + header, *parts], pending)

    def receive(self, deadline: Deadline | None = None) -> tuple[Any, Any]:
        """Wait for the oldest request's answer. Return the request's tag and the answer.

        Raises BrokerUnavailableError if the connection is lost, or if no answer comes before the deadline, or within
        `request.timeout.ms` after sending.
        """
        pending = self._pending[0]
        due_at = self.answer_due_at if deadline is None else min(self.answer_due_at, deadline.at)
        try:
            frame = self._receive_frame(due_at)
        except TimeoutError:
            waited_ms = int((time.monotonic() - pending.sent_at) * 1000)
            raise self._lost(f"no answer within {waited_ms} ms") from None
        except OSError as error:
            raise self._lost(str(error)) from error
        if struct.unpack_from(">i", frame)[0] != pending.correlation_id:
            raise self._lost("the answers came out of order")
        self._pending.popleft()
        self._used_at = time.monotonic()
        answer = decode(pending.response, frame, pending.version)
        throttled_ms = getattr(answer, "throttle_time_ms", 0)
        if throttled_ms:
            # While the broker throttles, it reads nothing from this connection (KIP-219), so nothing must be sent.
            self._muted_until = self._used_at + throttled_ms / 1000
        return pending.tag, answer

    def _send(self, parts: list[Buffer], pending: _Pending) -> None:
        HEARTBEAT.give_way()
        if self._muted_until is not None:
            time.sleep(max(0.0, self._muted_until - time.monotonic()))
            self._muted_until = None
        pending.sent_at = time.monotonic()
        self._pending.append(pending)
        try:
            self._socket.settimeout(self._config.request_timeout_ms / 1000)
            if isinstance(self._socket, ssl.SSLSocket):
                for part in parts:
                    self._socket.sendall(part)
            else:
                self._send_gathered(parts)
        except OSError as error:
            raise self._lost(str(error)) from error

    def _send_gathered(self, parts: list[Buffer]) -> None:
        first = 0
        while first < len(parts):
            sent = self._socket.sendmsg(parts[first : first + _SENDMSG_PARTS])
            while first < len(parts) and sent >= len(parts[first]):
                sent -= len(parts[first])
                first += 1
            if sent:
                parts[first] = memoryview(parts[first])[sent:]

    def _receive_frame(self, due_at: float) -> bytes:
        while True:
            if len(self._received) >= 4:
                size = struct.unpack_from(">i", self._received)[0]
                if len(self._received) >= 4 + size:
                    frame = bytes(self._received[4 : 4 + size])
                    del self._received[: 4 + size]
                    return frame
            self._socket.settimeout(max(0.001, due_at - time.monotonic()))
            chunk = self._socket.recv(_RECEIVE_BYTES)
            if not chunk:
                raise ConnectionResetError("the broker closed the connection")
            self._received += chunk

    def _lost(self, reason: str) -> BrokerUnavailableError:
        self.close()
        host, port = self.address
        return BrokerUnavailableError(
            f"The connection to broker {host}:{port} was lost: {reason}", address=f"{host}:{port}"
        )

    # -- opening ------------------------------------------------------------------------------------------------

    def _open(self) -> socket.socket:
        host, port = self.address
        timeout_s = max(0.001, self._setup_step().remaining_s)
        try:
            plain = socket.create_connection(self.address, timeout=timeout_s)
        except OSError as error:
            if is_exhaustion(error):
                raise NoDescriptorError(f"{host}:{port}") from error
            raise BrokerUnavailableError(
                f"The broker {host}:{port} cannot be reached: {error}", address=f"{host}:{port}"
            ) from error
        if is_reserved(plain.fileno()):
            plain.close()
            raise NoDescriptorError(f"{host}:{port}")
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._config.tls is None:
            return plain
        try:
            return self._config.tls.context().wrap_socket(plain, server_hostname=host)
        except ssl.SSLError as error:
            plain.close()
            raise AuthenticationError(
                f"TLS with the broker {host}:{port} failed ({error.reason or error}): check that security.protocol fits the "
                "listener, that ssl.truststore.location holds the authority of the broker's certificate, and that the "
                "certificate names this host"
            ) from error
        except OSError as error:
            plain.close()
            if is_exhaustion(error):
                raise NoDescriptorError(f"{host}:{port}") from error
            raise BrokerUnavailableError(
                f"The broker {host}:{port} closed the connection during the TLS handshake ({error}): check that "
                "security.protocol fits the listener",
                address=f"{host}:{port}",
            ) from error

    def _setup_step(self) -> Deadline:
        step = Deadline.after(self._config.socket_connection_setup_timeout_ms)
        given = self._setup_deadline
        return step if given is None or given.at > step.at else given

    def _handshake(self) -> None:
        # Every broker supports version 0. Version 3 lists the finalized features.
        self.versions = {ApiVersionsRequest.API_KEY: (0, 3)}
        request = ApiVersionsRequest(client_software_name="fencepost", client_software_version=__version__)
        answer = self.call(request, deadline=self._setup_step())
        if answer.error_code == _UNSUPPORTED_VERSION:
            answer = self.call(ApiVersionsRequest(), at_most=0, deadline=self._setup_step())
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        finalized = getattr(answer, "finalized_features", None) or ()
        self.features = {feature.name: feature.max_version_level for feature in finalized}
        if self._config.sasl is not None:
            self._authenticate(self._config.sasl.mechanism)

    def _authenticate(self, mechanism_name: str) -> None:
        request = SaslHandshakeRequest(mechanism=mechanism_name)
        answer = self.call(request, at_most=1, deadline=self._setup_step())
        if answer.error_code:
            offered = ", ".join(answer.mechanisms)
            broker = f"The broker {self.address[0]}:{self.address[1]}"
            if not offered:
                protocol = "PLAINTEXT" if self._config.tls is None else "SSL"
                raise AuthenticationError(
                    f"{broker} has no SASL on this port: set security.protocol={protocol}, or give the port of its SASL "
                    "listener in bootstrap.servers"
                )
            raise AuthenticationError(
                f"{broker} does not offer sasl.mechanism={mechanism_name}: set it to one of {offered}"
            )
        settings = self._config.sasl_settings() | {"security_protocol": self._config.security_protocol}
        mechanism = get_sasl_mechanism(mechanism_name)(host=self.address[0], **settings)
        lifetime_ms = 0
        while not mechanism.is_done():
            request = SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes())
            answer = self.call(request, at_most=2, deadline=self._setup_step())
            if answer.error_code:
                raise self._refused(mechanism_name, answer.error_message)
            lifetime_ms = getattr(answer, "session_lifetime_ms", 0) or 0
            try:
                mechanism.receive(answer.auth_bytes)
            except ValueError as error:
                raise self._refused(mechanism_name, str(error)) from error
        if not mechanism.is_authenticated():
            raise self._refused(mechanism_name, None)
        if lifetime_ms:
            # Brokers close connections when their session has ended (KIP-368).
            self._session_ends = Deadline.after(lifetime_ms * 0.85).at

    def _refused(self, mechanism: str, detail: str | None) -> AuthenticationError:
        detail_text = f" ({detail})" if detail else ""
        return AuthenticationError(
            f"The broker {self.address[0]}:{self.address[1]} refused the credentials for {mechanism}{detail_text}: check the "
            "user name and password (or client id and secret) in sasl.jaas.config"
        )
