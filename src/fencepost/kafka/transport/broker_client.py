"""Requests to the brokers of a cluster, for administration, for reading, and for records outside of transactions.

Requests use the connections of POOL, on the calling thread: a client has neither a thread nor a connection of its own.
When the last client with a configuration is closed, the idle connections of this configuration are closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from kafka.protocol.metadata import MetadataRequest

from fencepost.api.closing import Closing
from fencepost.api.errors import IllegalStateError
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import BrokerUnavailableError, KafkaError
from fencepost.kafka.transport.cluster import Cluster
from fencepost.kafka.transport.connection import Connection
from fencepost.kafka.transport.error_codes import code_name, is_retriable, refused
from fencepost.kafka.transport.interruption import Interruption
from fencepost.kafka.transport.pool import POOL

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class UnansweredError(BrokerUnavailableError):
    """A request has no answer: the connection was lost, or the deadline has passed.

    The final error, which `BrokerClient.run` raises, names the purpose of the request.
    """


class AnsweredError(KafkaError):
    """A broker answered with an error code. `BrokerClient.run` converts this to a typed error."""

    def __init__(self, code: int, detail: str | None = None) -> None:
        super().__init__(code_name(code))
        self.code = code
        self.detail = detail


class PassingError(AnsweredError):
    """A broker answered with an error code after which the same request may be repeated."""


TRANSIENT: Final = (UnansweredError, PassingError)
"""Failures after which the same request may be repeated: lost connections, moved leaders or coordinators, time-outs."""


def answered(code: int, detail: str | None = None) -> AnsweredError:
    """Return an error code as an exception."""
    return (PassingError if is_retriable(code) else AnsweredError)(code, detail)


def remaining_ms(deadline: Deadline, at_most: float) -> float:
    """Return the milliseconds left until a deadline, between 1 and `at_most`: a value for a request's time-out."""
    return max(1.0, min(at_most, deadline.remaining_s * 1000))


class BrokerClient(Closing):
    """Sends requests to the brokers of one cluster. Threads may share it; their calls then wait for each other."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.cluster = Cluster.of(config)
        self.interruption = Interruption()
        self._lock, self._closing = threading.Lock(), threading.Lock()
        POOL.join(config)

    def run(self, procedure: Callable[[Unpack[Arguments]], T], *args: *Arguments, doing: str) -> T:
        """Run a procedure that uses this client, and return its result.

        `doing` is for messages: `"creating topic orders"`. Raises KafkaError (BrokerUnavailableError,
        AuthenticationError, ...), and IllegalStateError after the client is closed.
        """
        with self._lock:
            if self.interruption.requested:
                raise IllegalStateError(f"The connection to {self._servers} was closed before {doing}")
            try:
                return procedure(*args)
            except KafkaError as error:
                if self.interruption.requested:
                    raise IllegalStateError(f"The connection to {self._servers} was closed while {doing}") from error
                if isinstance(error, UnansweredError):
                    raise BrokerUnavailableError(f"No answer while {doing}. {error}", address=self._servers) from error
                if isinstance(error, AnsweredError):
                    raise refused(doing, error.code, error.detail) from error
                raise

    def send(
        self, request: Any, broker: int | None = None, *, timeout_ms: float | None = None, at_most: int | None = None
    ) -> Any:
        """Send a request to a broker (None: to any) and return its answer, whatever error code it contains.

        `timeout_ms` includes connecting; it is `request.timeout.ms` if None. `at_most` is the highest version to use.
        """
        deadline = Deadline.after(timeout_ms or self.config.request_timeout_ms)
        if broker is not None:
            return self.send_all([(request, broker)], timeout_ms=timeout_ms, at_most=at_most)[0]
        try:
            return self.cluster.call(request, deadline, at_most=at_most, interruption=self.interruption)
        except BrokerUnavailableError as error:
            raise UnansweredError(str(error), address=error.address) from error

    def send_all(
        self, requests: Sequence[tuple[Any, int]], *, timeout_ms: float | None = None, at_most: int | None = None
    ) -> list[Any]:
        """Send requests to brokers at the same time, and return the answers in order.

        The arguments are the same as for `send`.

        If requests fail, the first failure is raised after all requests were answered or have failed.
        """
        if any(self.cluster.address(broker) is None for _, broker in requests):
            self.refresh_brokers(timeout_ms)
        deadline = Deadline.after(timeout_ms or self.config.request_timeout_ms)
        waiting: list[Connection] = []
        answers: list[Any] = []
        failure: BrokerUnavailableError | None = None
        try:
            for request, broker in requests:
                try:
                    waiting.append(self._take(broker, deadline))
                    waiting[-1].send(request, at_most=at_most)
                except BrokerUnavailableError as error:
                    failure = failure or error
            for connection in waiting:
                try:
                    if not connection.closed:
                        answers.append(connection.receive(deadline)[1])
                except BrokerUnavailableError as error:
                    failure = failure or error
        finally:
            for connection in waiting:
                self.interruption.give_back(self.config, connection)
        if failure is not None:
            raise UnansweredError(str(failure), address=failure.address) from failure
        return answers

    def metadata(self, topics: Sequence[str] = (), *, timeout_ms: float | None = None) -> Any:
        """Return any broker's answer to Metadata, and learn the brokers from it. Never creates a topic."""
        asked = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
        answer = self.send(MetadataRequest(topics=asked, allow_auto_topic_creation=False), timeout_ms=timeout_ms)
        self.cluster.learn_brokers(answer)
        return answer

    def refresh_brokers(self, timeout_ms: float | None = None) -> None:
        """Request the list of brokers again. If no broker answers, the known brokers stay."""
        with suppress(UnansweredError):
            self.metadata(timeout_ms=timeout_ms)

    def sleep(self, milliseconds: float) -> None:
        """Pause. Raises UnansweredError if the client is closed, so that procedures do not try again."""
        try:
            self.interruption.sleep(milliseconds / 1000)
        except BrokerUnavailableError as error:
            raise UnansweredError(str(error)) from error

    def close(self) -> None:
        """Close this client. Requests that run on another thread end with an IllegalStateError."""
        with self._closing:
            if not self.interruption.requested:
                self.interruption.request()
                POOL.leave(self.config)

    def _take(self, broker: int, deadline: Deadline) -> Connection:
        address = self.cluster.address(broker)
        if address is None:
            raise BrokerUnavailableError(f"Broker {broker} is not one of the cluster's at present")
        return self.interruption.take(self.config, address, deadline)

    @property
    def _servers(self) -> str:
        return ",".join(self.config.bootstrap_servers)
