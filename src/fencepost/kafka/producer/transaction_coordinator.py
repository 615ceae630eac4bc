"""Requests to the coordinator of one transactional id. The coordinator may change at any time.

InitProducerId and EndTxn: https://kafka.apache.org/protocol. AddPartitionsToTxn is for transaction version 1.
DescribeTransactions is KIP-664.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, Final, Self

from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.producer import (
    EndTxnRequest,
    ProduceRequest,
)

from fencepost import failpoint
from fencepost.api.errors import ConfigError
from fencepost.failpoint import FailPoint
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.deadline import Backoff, Deadline
from fencepost.kafka.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    ConcurrentTransactionsError,
    InvalidProducerEpochError,
    KafkaError,
    LostEpochError,
    NoDescriptorError,
    TransactionAbortableError,
    TransactionalIdExpiredError,
    UnsupportedBrokerError,
)
from fencepost.kafka.producer.coordinator_lookup import find_coordinator
from fencepost.kafka.producer.coordinator_requests import (
    ADD_PARTITIONS_V1,
    END_TXN_V1,
    END_TXN_V2,
    INIT_PRODUCER_ID,
    PRODUCE_V2,
    RAISES_EPOCH,
    add_partitions_request,
    concurrent_while_completing,
    end_request,
    init_producer_id_request,
    shown_state,
    top_level,
    worst_of_partitions,
)
from fencepost.kafka.producer.transaction import (
    CoordinatorView,
    ProducerIdentity,
    TopicPartition,
    TransactionVersion,
    may_be_own_rise,
)
from fencepost.kafka.transport.cluster import Cluster
from fencepost.kafka.transport.connection import Address, Connection
from fencepost.kafka.transport.error_codes import COORDINATOR_MOVED, EPOCH_IS_DEAD, PASSING, Code, code_name, refused
from fencepost.kafka.transport.interruption import Interruption

_EXPLAINING_MS: Final = 1_000
"""How long to request the state of a transaction that does not end."""

_OPENING_MS: Final = 1_000
"""The minimum time-out for connecting.

Even shortly before the deadline, a broker that accepts connections quickly gets this time.
"""

_PASSING_AT_END: Final = PASSING | {Code.UNKNOWN_SERVER_ERROR}
"""Brokers answer EndTxn with UNKNOWN_SERVER_ERROR while another producer fences the transactional id (Kafka 4.1).

The next answer is that the epoch is fenced. If brokers keep answering UNKNOWN_SERVER_ERROR, the outcome is unknown.
"""

# A coordinator needs a few milliseconds to write the markers that complete a transaction.
_FIRST_PAUSE_MS: Final = 1


class TransactionCoordinator:
    """Sends requests to the coordinator of one transactional id. Not thread-safe.

    Every method repeats its request after retriable errors until the deadline, and then raises BrokerUnavailableError.
    An outdated epoch raises InvalidProducerEpochError, a missing right AuthorizationError.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        address: Address | None = None,
        interruption: Interruption | None = None,
    ) -> None:
        """The coordinator is looked up before the first request, unless its `address` is given."""
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._address = address
        self._interruption = interruption or Interruption()
        self._connection: Connection | None = None
        self._cancelled = False
        self._answer_lost = False
        """Whether the coordinator may have processed a request of the last call whose answer was lost."""

    @classmethod
    def of(cls, config: ClientConfig, transactional_id: str) -> Self:
        """Return a TransactionCoordinator for an id of the cluster of `config`."""
        return cls(Cluster.of(config), transactional_id)

    def cancel(self) -> None:
        """Limit the running call, and each later one, to one more attempt. Another thread calls this.

        A call that waits for an answer stops waiting.
        """
        self._cancelled = True
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def init_producer_id(
        self, current: ProducerIdentity, *, timeout_ms: int, deadline: Deadline, at_least: int = RAISES_EPOCH
    ) -> tuple[ProducerIdentity, TransactionVersion]:
        """Take over the transactional id, fencing former owners and aborting their open transaction.

        With a `current` identity, its epoch is bumped instead, unless another producer owns the id now (KIP-360).
        Returns the identity to use, and the coordinator's transaction version. Raises UnsupportedBrokerError if the
        coordinator does not support version `at_least` of the request, and LostEpochError if it may have raised the
        epoch for a request whose answer was lost.
        """
        request = init_producer_id_request(self._transactional_id, current, timeout_ms=timeout_ms)
        answer = self._call(request, deadline, at_most=INIT_PRODUCER_ID, at_least=at_least, code_of=top_level)
        if answer.error_code in EPOCH_IS_DEAD and self._answer_lost and current != ProducerIdentity():
            self._raise_if_forgotten(current, deadline)
        if answer.error_code == Code.INVALID_TRANSACTION_TIMEOUT:
            raise ConfigError(
                f"transaction.timeout.ms={timeout_ms} is more than the brokers' transaction.max.timeout.ms allows: "
                "lower the first or raise the second",
                name="transaction.timeout.ms",
            )
        self._raise_for(answer.error_code, "InitProducerId")
        return ProducerIdentity(answer.producer_id, answer.producer_epoch), self._version()

    def add_partitions(
        self, identity: ProducerIdentity, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> None:
        """Add partitions to the open transaction (transaction version 1).

        Raises TopicNotFoundError, AuthorizationError, and the error for another refusal of the coordinator.
        """
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            by_topic[topic].append(partition)
        request = add_partitions_request(self._transactional_id, identity, by_topic)

        def code_of(answer: Any) -> int:
            code = worst_of_partitions(answer)
            if code == Code.UNKNOWN_TOPIC_OR_PARTITION:
                # The coordinator may learn of a new topic later than other brokers. A deleted topic is unknown to all
                # brokers.
                for topic in by_topic:
                    self._cluster.forget_topic(topic)
                    self._cluster.partitions(topic, deadline)
            return code

        passing = PASSING | {Code.UNKNOWN_TOPIC_OR_PARTITION}
        answer = self._call(request, deadline, at_most=ADD_PARTITIONS_V1, code_of=code_of, passing=passing)
        for topic in answer.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                if result.partition_error_code == Code.TOPIC_AUTHORIZATION_FAILED:
                    raise AuthorizationError(f"topic {topic.name}", "WRITE")
        self._raise_for(worst_of_partitions(answer), "AddPartitionsToTxn")

    def end_transaction(
        self, identity: ProducerIdentity, version: TransactionVersion, *, committed: bool, deadline: Deadline
    ) -> ProducerIdentity:
        """Commit or abort. Return the identity to use from now on: version 2 bumps its epoch.

        If the answer is lost, the request can safely be sent again: a coordinator that has already ended the
        transaction in the same way gives the same answer.
        """
        request = end_request(self._transactional_id, identity, committed=committed)
        at_most = END_TXN_V2 if version is TransactionVersion.V2 else END_TXN_V1
        answer = self._call(
            request,
            deadline,
            at_most=at_most,
            code_of=top_level,
            passing=_PASSING_AT_END,
            sent=_reach_after_end_txn_sent,
        )
        self._raise_for(answer.error_code, "EndTxn")
        if version is TransactionVersion.V1:
            return identity
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    def check_epoch(self, identity: ProducerIdentity, deadline: Deadline) -> None:
        """Raise InvalidProducerEpochError if the identity no longer belongs to the transactional id (version 1).

        The check sends an abort: brokers refuse an outdated epoch in every state of the transaction. If a stray writer
        has opened a transaction, the abort ends it. Otherwise the abort changes nothing.
        """
        request = end_request(self._transactional_id, identity, committed=False)
        code = top_level(self._call(request, deadline, at_most=END_TXN_V1, code_of=top_level))
        if code != Code.INVALID_TXN_STATE:
            self._raise_for(code, "EndTxn")

    def retire(self, identity: ProducerIdentity, *, timeout_ms: int, deadline: Deadline) -> None:
        """Make an identity invalid, and abort its open transaction (version 1).

        The transaction markers carry the next epoch, so leaders refuse batches that are still sent with this one.
        Raises InvalidProducerEpochError if the identity no longer belongs to the transactional id; then nothing is
        done.
        """
        # InitProducerId aborts an open transaction whoever sends it. So a zombie could abort its successor's
        # transaction.
        with suppress(UnsupportedBrokerError):
            if self.describe(deadline).identity != identity:
                raise InvalidProducerEpochError(self._transactional_id, Code.PRODUCER_FENCED.name)
        # The abort raises the epoch, so a repeated request has an outdated epoch.
        with suppress(InvalidProducerEpochError):
            self.init_producer_id(identity, timeout_ms=timeout_ms, deadline=deadline)

    def describe(self, deadline: Deadline) -> CoordinatorView:
        """Return the coordinator's state of the id.

        Raises TransactionalIdExpiredError; UnsupportedBrokerError before 3.0.
        """
        return self._describe(deadline, lambda answer: int(answer.transaction_states[0].error_code))

    def ask_completion(self) -> None:
        """Send the request of `await_completion` early, so that its answer has probably arrived when it is needed.

        Never raises: `await_completion` sends another request if this one fails.
        """
        connection = self._connection
        if connection is None or connection.closed or connection.in_flight:
            return
        with suppress(BrokerUnavailableError, UnsupportedBrokerError):
            connection.send(self._description_request())

    def await_completion(self, deadline: Deadline) -> None:
        """Return when the markers of the last transaction are written; at once if no transaction is being completed.

        Raises TransactionalIdExpiredError.
        """
        if not self._is_known_completed(deadline):
            self._describe(deadline, concurrent_while_completing)

    def close(self) -> None:
        """Return the connection to the pool."""
        if self._connection is not None:
            self._interruption.give_back(self._cluster.config, self._connection)
            self._connection = None

    # ---------------------------------------------------------------------------------------------------------

    def _raise_if_forgotten(self, current: ProducerIdentity, deadline: Deadline) -> None:
        # If the state cannot be requested, the caller raises the coordinator's earlier refusal.
        with suppress(TransactionalIdExpiredError, AuthorizationError, BrokerUnavailableError, UnsupportedBrokerError):
            if may_be_own_rise(current, self.describe(deadline)):
                raise LostEpochError(self._transactional_id)

    def _description_request(self) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=[self._transactional_id])

    def _is_known_completed(self, deadline: Deadline) -> bool:
        """Whether the answer to `ask_completion` says that the markers are written."""
        connection = self._connection
        if connection is None or not connection.in_flight:
            return False
        try:
            answer = connection.receive(deadline)[1]
        except BrokerUnavailableError:
            self._leave()
            return False
        return concurrent_while_completing(answer) == Code.NONE

    def _describe(self, deadline: Deadline, code_of: Callable[[Any], int]) -> CoordinatorView:
        answer = self._call(self._description_request(), deadline, at_most=None, code_of=code_of)
        (state,) = answer.transaction_states
        self._raise_for(state.error_code, "DescribeTransactions")
        return CoordinatorView(ProducerIdentity(state.producer_id, state.producer_epoch), state.transaction_state)

    def _call(
        self,
        request: Any,
        deadline: Deadline,
        *,
        at_most: int | None,
        code_of: Callable[[Any], int],
        at_least: int = 0,
        passing: AbstractSet[int] = PASSING,
        sent: Callable[[], None] = lambda: None,
    ) -> Any:
        backoff = Backoff(_FIRST_PAUSE_MS, self._cluster.config.retry_backoff_max_ms)
        problem = ""
        was_concurrent, since = False, time.monotonic()
        self._answer_lost = False
        while True:
            try:
                connection = self._connect(deadline)
                _drop_answers(connection, deadline)
                connection.send(request, at_most=at_most, at_least=at_least)
                sent()
                answer = connection.receive(deadline)[1]
                code = code_of(answer)
                if code not in passing:
                    return answer
                problem = code_name(code)
                was_concurrent = code == Code.CONCURRENT_TRANSACTIONS
                if code in COORDINATOR_MOVED:
                    self._leave()
            except BrokerUnavailableError as error:
                # An earlier error code explains more than this time-out, so the message has both.
                problem = f"{problem}; then: {error}" if problem and deadline.passed else str(error)
                was_concurrent = was_concurrent and deadline.passed
                self._answer_lost = True
                self._leave()
                if isinstance(error, NoDescriptorError) and deadline.passed:
                    raise
            stopping = self._cancelled or self._interruption.requested
            if deadline.passed and was_concurrent and not stopping:
                raise self._stuck(type(request).__name__.removesuffix("Request"), since)
            if deadline.passed or stopping:
                raise BrokerUnavailableError(
                    f"The transaction coordinator of {self._transactional_id} did not answer "
                    f"{type(request).__name__} in time. The last problem was: {problem}"
                )
            backoff.sleep(deadline)

    def _stuck(self, request: str, since: float) -> ConcurrentTransactionsError:
        """Return the error for a transaction that does not end.

        The error contains the transaction's state at the coordinator, if the principal may see it.
        """
        waited_ms = int((time.monotonic() - since) * 1000)
        state: str | None = None
        with suppress(KafkaError):
            connection = self._connect(Deadline.after(_EXPLAINING_MS))
            _drop_answers(connection, Deadline.after(_EXPLAINING_MS))
            answer = connection.call(self._description_request(), deadline=Deadline.after(_EXPLAINING_MS))
            (row,) = answer.transaction_states
            state = shown_state(row) if row.error_code == Code.NONE else None
        host, port = self._address or ("(unknown)", 0)
        return ConcurrentTransactionsError(
            self._transactional_id, request, waited_ms=waited_ms, coordinator=f"{host}:{port}", state=state
        )

    def _connect(self, deadline: Deadline) -> Connection:
        if self._connection is None or self._connection.closed:
            if self._address is None:
                self._address = self._find(deadline)
            opened_by = max(deadline, Deadline.after(_OPENING_MS), key=lambda moment: moment.at)
            self._connection = self._interruption.take(self._cluster.config, self._address, opened_by)
        return self._connection

    def _leave(self) -> None:
        self.close()
        self._address = None

    def _find(self, deadline: Deadline) -> Address:
        code, address = find_coordinator(self._cluster, self._transactional_id, deadline)
        self._raise_for(code, "FindCoordinator")
        return address

    def _version(self) -> TransactionVersion:
        connection = self._connection
        if connection is None:  # pragma: no cover - called after an answer only
            raise UnsupportedBrokerError("not connected")
        understood = all(
            connection.versions.get(request.API_KEY, (0, -1))[1] >= version
            for request, version in ((ProduceRequest, PRODUCE_V2), (EndTxnRequest, END_TXN_V2))
        )
        finalized = connection.features.get("transaction.version", 0) >= TransactionVersion.V2
        return TransactionVersion.V2 if finalized and understood else TransactionVersion.V1

    def _raise_for(self, code: int, request: str) -> None:
        if code == Code.NONE:
            return
        raise self._error(code, request)

    def _error(self, code: int, request: str) -> KafkaError:
        if code in EPOCH_IS_DEAD or code in (Code.INVALID_TXN_STATE, Code.INVALID_PRODUCER_ID_MAPPING):
            return InvalidProducerEpochError(self._transactional_id, code_name(code))
        if code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            operation = "DESCRIBE" if request in ("FindCoordinator", "DescribeTransactions") else "WRITE"
            return AuthorizationError(f"transactional id {self._transactional_id}", operation)
        if code == Code.TRANSACTIONAL_ID_NOT_FOUND:
            return TransactionalIdExpiredError(self._transactional_id)
        if code == Code.TRANSACTION_ABORTABLE:
            return TransactionAbortableError(
                f"The coordinator asks to abort the transaction of {self._transactional_id}: the records are sent "
                "again in a new one"
            )
        return refused(f"{request} of {self._transactional_id}", code)


def _drop_answers(connection: Connection, deadline: Deadline) -> None:
    """Receive and drop the answers to all requests in flight. Raises BrokerUnavailableError."""
    while connection.in_flight:
        connection.receive(deadline)


def _reach_after_end_txn_sent() -> None:
    failpoint.reach(FailPoint.AFTER_END_TXN_SENT)
