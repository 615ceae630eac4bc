"""kafka-python's connection manager with two fixes: fatal failures are raised at once, and no socket stays open.

kafka.net is internal to kafka-python; only kafka.group uses it. tests/broker/kafka/test_group_connections.py tests the
behavior that this module depends on.
"""

from __future__ import annotations

import socket
import ssl
import time
from functools import partial
from typing import Any, Final

import kafka.errors as client_errors
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from fencepost.kafka.errors import AuthenticationError, BrokerUnavailableError, KafkaError, UnsupportedBrokerError
from fencepost.kafka.transport.error_codes import refused

_UNREACHABLE: Final = (
    client_errors.KafkaConnectionError,
    client_errors.KafkaTimeoutError,
    client_errors.RequestTimedOutError,
    client_errors.NodeNotReadyError,
    client_errors.UnknownBrokerIdError,
    client_errors.Cancelled,
)

BAD_CREDENTIALS: Final = (
    client_errors.SaslAuthenticationFailedError,
    client_errors.UnsupportedSaslMechanismError,
    client_errors.IllegalSaslStateError,
)

# A connection that closes during the handshake is retriable. All other TLS errors are fatal.
_INTERRUPTED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


class TlsError(client_errors.KafkaError):  # type: ignore[misc]  # kafka-python ships no type information
    """The TLS handshake failed, and would fail again."""


class _ClosingSocket(KafkaNetSocket):  # type: ignore[misc]  # kafka-python ships no type information
    """Closes the socket if connecting fails. kafka-python would leave it open.

    kafka-python chooses the class of a socket by the scheme of `proxy_url`. No proxy is used.
    """

    SCHEMES = ("direct",)

    async def sock_connect(self, net: Any, sock: socket.socket, sockaddr: Any, timeout_at: float | None = None) -> Any:
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class _LastWords:
    """Delivers the last bytes before the end of a stream, such as the reason of a SASL failure.

    kafka-python would drop these bytes.
    """

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        data, error = super()._sock_recv()  # type: ignore[misc]  # of the transport that this is mixed into
        # The next read reports the end of the stream.
        return data, None if data else error


class _AtOnce:
    """Writes to the socket immediately. kafka-python would first wait until it is writable."""

    async def _write_to_sock(self) -> None:
        _, error = self._sock_send()  # type: ignore[attr-defined]  # of the transport that this is mixed into
        if error:
            self.abort(error=error)  # type: ignore[attr-defined]
            return
        self.last_write = time.monotonic()
        await super()._write_to_sock()  # type: ignore[misc]


class _TcpTransport(_AtOnce, _LastWords, KafkaTCPTransport):  # type: ignore[misc]  # kafka-python ships no type information
    pass


class _TlsTransport(_AtOnce, _LastWords, KafkaSSLTransport):  # type: ignore[misc]  # kafka-python ships no type information
    pass


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python ships no type information
    """Connections to the brokers of a cluster."""

    def __init__(self, net: Any, **settings: Any) -> None:
        super().__init__(net, **settings | {"proxy_url": f"{_ClosingSocket.SCHEMES[0]}://"})
        # kafka-python has its own record of such failures, but clears it when SASL is refused.
        self._fatal_failures: dict[Any, Exception] = {}

    def get_connection(self, node_id: Any, **options: Any) -> Any:
        """Return the connection to a node. Raises fatal failures: refused credentials, failed TLS handshakes."""
        if node_id in self._fatal_failures:
            raise self._fatal_failures[node_id]
        if options.get("timeout_ms") is not None:
            # Without this limit, bootstrapping could spend all of its time on the first broker, which may accept
            # connections but never answer.
            options["timeout_ms"] = min(options["timeout_ms"], self.socket_connection_setup_timeout_ms(node_id))
        known = node_id in self._conns
        connection = super().get_connection(node_id, **options)
        if not known:
            connection.init_future.add_errback(partial(self._remember, node_id))
        return connection

    def forget_failures(self) -> None:
        """Forget fatal failures, so that the next use retries."""
        self._fatal_failures.clear()
        self._auth_failures.clear()

    def _remember(self, node_id: Any, error: Exception) -> None:
        if isinstance(error, (*BAD_CREDENTIALS, TlsError)):
            self._fatal_failures[node_id] = error

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await create_connection(
            self._net,
            node.host,
            node.port,
            self.config["socket_options"],
            proxy_url=self.config["proxy_url"],
            timeout_at=timeout_at,
        )
        if not self.ssl_enabled:
            return _TcpTransport(self._net, sock, host=node.host)
        transport = _TlsTransport(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
        try:
            await self.wait_for(self.call_soon(transport.handshake), self.config["socket_connection_setup_timeout_ms"])
        except ssl.SSLError as error:
            transport.abort()
            failed = client_errors.KafkaConnectionError if isinstance(error, _INTERRUPTED) else TlsError
            raise failed(f"TLS handshake with {node.host}:{node.port} failed: {error}") from error
        except BaseException:
            transport.abort()
            raise
        return transport


def translated(error: client_errors.KafkaError, doing: str, *, address: str) -> KafkaError:
    """Return the typed form of an error of kafka-python. `address` names the cluster in messages."""
    if isinstance(error, BAD_CREDENTIALS):
        return AuthenticationError(
            f"The broker at {address} does not accept the credentials while {doing}: {error}. "
            "Check sasl.mechanism and sasl.jaas.config"
        )
    if isinstance(error, TlsError):
        return AuthenticationError(
            f"No secure connection to {address} while {doing}: {error}. Check ssl.truststore.location, "
            "ssl.keystore.location, and that security.protocol is the one of that port"
        )
    if isinstance(error, _UNREACHABLE):
        return BrokerUnavailableError(
            f"No answer from the brokers at {address} while {doing}: {error}. Check that they run, "
            "bootstrap.servers, and that security.protocol is the one of that port",
            address=address,
        )
    if isinstance(error, client_errors.IncompatibleBrokerVersion):
        return UnsupportedBrokerError(f"The broker at {address} is too old for {doing}: {error}")
    return refused(doing, getattr(error, "errno", None) or -1, str(error))
