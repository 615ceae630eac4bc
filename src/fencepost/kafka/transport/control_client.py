"""Requests to brokers for everything except producing, over kafka-python's connections.

kafka-python 3 has protocol classes that are generated from Kafka's own schemas, and connections with SASL and TLS. Its
event loop can be driven by the calling thread, which is done here: a client has no own thread, so an idle one only
costs its sockets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import kafka.errors as client_errors
from kafka.future import Future
from kafka.net.selector import NetworkSelector

from fencepost.api.errors import IllegalStateError
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerRefusedError,
    BrokerUnavailableError,
    KafkaError,
    UnsupportedBrokerError,
)
from fencepost.kafka.transport import unreachable_warning
from fencepost.kafka.transport.control_connections import BAD_CREDENTIALS, ConnectionManager, TlsError

T = TypeVar("T")

# The default of kafka-python's manager is 1 MB, less than one fetch of records.
_LARGEST_RESPONSE: Final = 200_000_000

TRANSIENT: Final = (client_errors.RetriableError, client_errors.UnknownBrokerIdError)
"""Retriable failures: lost connections, leaders or coordinators that move, time-outs."""

_UNREACHABLE: Final = (
    client_errors.KafkaConnectionError,
    client_errors.KafkaTimeoutError,
    client_errors.RequestTimedOutError,
    client_errors.NodeNotReadyError,
    client_errors.UnknownBrokerIdError,
    client_errors.Cancelled,
)


def remaining_ms(deadline: Deadline, at_most: float) -> float:
    """Return the milliseconds left until a deadline, between 1 and `at_most`: a time-out that a request can carry."""
    return max(1.0, min(at_most, deadline.remaining_s * 1000))


class ControlClient:
    """Connections to one cluster. Thread-safe; threads then wait for each other."""

    def __init__(self, config: ClientConfig) -> None:
        settings = config.kafka_python() | {"receive_message_max_bytes": _LARGEST_RESPONSE}
        self.config = config
        self._net = NetworkSelector(**settings)
        self._manager = ConnectionManager(self._net, **settings)
        self._lock = threading.Lock()
        self._closing = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, procedure: Callable[..., Awaitable[T]], *args: Any, doing: str) -> T:
        """Run an async procedure that uses this client, on the calling thread, and return what it returns.

        `doing` is for messages: `"creating topic orders"`. Raises KafkaError (BrokerUnavailableError,
        AuthenticationError, ...), and IllegalStateError once the client is closed.
        """
        with self._lock:
            if self._closing:
                raise IllegalStateError(f"The connection to {self._address} was closed before {doing}")
            try:
                return self._drive(procedure, args)
            except client_errors.KafkaError as error:
                if self._closing:
                    raise IllegalStateError(f"The connection to {self._address} was closed while {doing}") from error
                self._manager.forget_failures()
                raise translated(error, doing, address=self._address) from error

    def _drive(self, procedure: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> T:
        # As the loop's own run does for one that has no thread, but without waking up the very thread that calls it.
        done = Future()

        async def settle() -> None:
            try:
                done.success(await self._bootstrapped(procedure, args))
            except BaseException as error:  # noqa: BLE001 - raised below
                done.failure(error)

        self._net.call_soon(settle)
        self._net.poll(future=done)
        if done.exception is not None:
            raise done.exception
        result: T = done.value
        return result

    async def _bootstrapped(self, procedure: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> T:
        if not self._manager.bootstrapped:
            await self._bootstrap()
        return await procedure(*args)

    async def _bootstrap(self) -> None:
        since = time.monotonic()
        bootstrap = self._manager.bootstrap_async(self.config.request_timeout_ms)
        while not bootstrap.is_done:
            # That bootstrapping itself timed out shows in what it ended with.
            with suppress(client_errors.KafkaTimeoutError):
                await self._manager.wait_for(bootstrap, unreachable_warning.PATIENCE_S * 1000)
            unreachable_warning.warn_while_unreachable(self.config.bootstrap_servers, since)
        await bootstrap

    async def send(self, request: Any, node_id: int | None = None, *, timeout_ms: float | None = None) -> Any:
        """Send a request to a broker (any broker if None) and return its response, with any error code.

        `timeout_ms` includes connecting; it is `request.timeout.ms` if None. Raises IllegalStateError once the client
        is closed, which ends procedures that would retry.
        """
        self._require_open()
        timeout_ms = timeout_ms or self.config.request_timeout_ms
        response = self._manager.send(request, node_id=node_id, request_timeout_ms=timeout_ms)
        return await self._manager.wait_for(response, timeout_ms)

    async def sleep(self, milliseconds: float) -> None:
        """Pause the procedure; others of the same `gather` continue."""
        await self._net.sleep(milliseconds / 1000)

    async def gather(self, procedures: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
        """Run procedures concurrently and return their results in order.

        The first failure is raised after all ended.
        """
        if len(procedures) == 1:
            return [await procedures[0]()]
        futures = [self._manager.call_soon(procedure) for procedure in procedures]
        results: list[T] = []
        failure: Exception | None = None
        for future in futures:
            try:
                results.append(await future)
            except Exception as error:  # noqa: BLE001 - raised below, once the others have ended too
                failure = failure or error
        if failure is not None:
            raise failure
        return results

    async def refresh_brokers(self, timeout_ms: float | None = None) -> None:
        """Refresh the list of brokers; if none answers, the cached list stays."""
        self._require_open()
        refresh = self._manager.call_soon(self._manager.cluster.refresh_metadata)
        with suppress(*TRANSIENT):
            await self._manager.wait_for(refresh, timeout_ms or self.config.request_timeout_ms)

    def broker_ids(self) -> list[int]:
        """Return the ids of the brokers at the last refresh."""
        return [broker.node_id for broker in self._manager.cluster.brokers()]

    def latest_version(self, request: type[Any]) -> int:
        """Return the highest version of a request that both sides support. Raises UnsupportedBrokerError if none."""
        version: int = self._manager.broker_version_data.api_version(request)
        return version

    def close(self) -> None:
        """Close the connections. A procedure on another thread ends with an IllegalStateError."""
        self._closing = True
        with suppress(RuntimeError):
            self._net.call_soon_threadsafe(self._manager.close)
        with self._lock:
            self._manager.close()
            self._net.close()

    def _require_open(self) -> None:
        if self._closing:
            raise IllegalStateError(f"The connection to {self._address} was closed")

    @property
    def _address(self) -> str:
        return ",".join(self.config.bootstrap_servers)


def translated(error: client_errors.KafkaError, doing: str, *, address: str) -> KafkaError:
    """Return the typed form of a kafka-python exception. `address` names the cluster in messages."""
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
    return refusal(error, doing)


def refusal(error: client_errors.KafkaError, doing: str) -> KafkaError:
    """Return the typed form of a broker's error code."""
    if isinstance(error, client_errors.ClusterAuthorizationFailedError):
        return AuthorizationError("the cluster", f"the right needed for {doing}")
    name = type(error).__name__.removesuffix("Error")
    return BrokerRefusedError(doing, getattr(error, "errno", None) or -1, name, str(error))
