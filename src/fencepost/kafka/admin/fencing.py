"""Fences producers by their transactional ids, many at once (the admin call of KIP-618).

The transaction coordinator initializes each id (InitProducerId). This bumps the id's epoch and aborts its open
transaction, so brokers refuse former owners of the id from then on. Coordinators are looked up in batches. A broker
answers one request of a connection at a time, so a coordinator fences several ids at once over several connections,
each used by one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import AuthenticationError, AuthorizationError, BrokerUnavailableError, KafkaError
from fencepost.kafka.producer.coordinator_lookup import ask_for_coordinators
from fencepost.kafka.producer.transaction import ProducerIdentity
from fencepost.kafka.producer.transaction_coordinator import TransactionCoordinator
from fencepost.kafka.transport.broker_client import BrokerClient
from fencepost.kafka.transport.connection import Address
from fencepost.kafka.transport.error_codes import Code

DEFAULT_TIMEOUT_MS: Final = 30_000

_REQUESTS_PER_COORDINATOR: Final = 4
# The value of a required field of InitProducerId. The fenced ids begin no transactions, so any value up to the broker's
# transaction.max.timeout.ms is valid.
_TRANSACTION_TIMEOUT_MS: Final = 1_000
_NAMED_IN_MESSAGE: Final = 10
_RIGHTS: Final = "WRITE and DESCRIBE"


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The producer id and epoch of an id after its fencing. Former owners have a lower epoch or another producer id."""

    producer_id: int
    epoch: int


class FencingError(KafkaError):
    """Producers could not be fenced. `failures` holds the reason for each transactional id."""

    def __init__(self, message: str, failures: Mapping[str, KafkaError]) -> None:
        super().__init__(message)
        self.failures = dict(failures)


class FencingTimeoutError(KafkaError):
    """A producer could not be fenced in time."""

    def __init__(self, transactional_id: str, timeout_ms: float, last_problem: str) -> None:
        super().__init__(
            f"The producer {transactional_id} could not be fenced within {timeout_ms:.0f} ms; the last problem was: "
            f"{last_problem}. Check the health of the brokers that hold __transaction_state, then try again"
        )
        self.transactional_id = transactional_id
        self.last_problem = last_problem


class FenceProducersResult:
    """The outcome for each transactional id. The methods have the names of Kafka's admin client."""

    def __init__(self, outcomes: Mapping[str, FencedProducer | KafkaError]) -> None:
        self._outcomes = outcomes

    @property
    def fenced_producers(self) -> Mapping[str, FencedProducer | KafkaError]:
        """Maps each id to its producer id and epoch, or to the reason why it was not fenced."""
        return self._outcomes

    def producer_id(self, transactional_id: str) -> int:
        """Return the producer id that a transactional id has after its fencing. Raises the failure of the fencing."""
        return self._fenced(transactional_id).producer_id

    def epoch_id(self, transactional_id: str) -> int:
        """Return the epoch that a transactional id has after its fencing. Raises the failure of the fencing."""
        return self._fenced(transactional_id).epoch

    def all(self) -> None:
        """Make sure that all ids are fenced.

        If one id failed, raises the failure of this id. If several failed, raises one error that names them:
        AuthorizationError if the principal lacks the right on each of them, else FencingError.
        """
        failures = {name: outcome for name, outcome in self._outcomes.items() if isinstance(outcome, KafkaError)}
        if len(failures) == 1:
            raise next(iter(failures.values()))
        if failures:
            names = list(failures)
            more = f" and {len(names) - _NAMED_IN_MESSAGE} more" if len(names) > _NAMED_IN_MESSAGE else ""
            shown = ", ".join(names[:_NAMED_IN_MESSAGE]) + more
            if all(isinstance(failure, AuthorizationError) for failure in failures.values()):
                raise AuthorizationError(f"transactional ids {shown}", _RIGHTS)
            raise FencingError(
                f"{len(names)} of {len(self._outcomes)} producers could not be fenced ({shown}). The first: "
                f"{failures[names[0]]}",
                failures,
            )

    def _fenced(self, transactional_id: str) -> FencedProducer:
        outcome = self._outcomes[transactional_id]
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome


def fence(client: BrokerClient, ids: Iterable[str], timeout_ms: float) -> FenceProducersResult:
    """Fence each transactional id. A failure to fence one id is not raised: the result contains it."""
    unique = list(dict.fromkeys(ids))
    outcomes = _Round(client, timeout_ms).fence(unique)
    return FenceProducersResult({name: outcomes[name] for name in unique})


class _Round:
    """One call of `fence`, with its deadline."""

    def __init__(self, client: BrokerClient, timeout_ms: float) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._deadline = Deadline.after(timeout_ms)

    def fence(self, ids: Sequence[str]) -> Mapping[str, FencedProducer | KafkaError]:
        """Fence the ids. Retry until every id has an outcome, or the deadline has passed."""
        if not ids:
            return {}
        coordinators = self._find_coordinators(ids)
        at_once = min(len(ids), _REQUESTS_PER_COORDINATOR * max(1, len(set(coordinators.values()))))
        if at_once == 1:
            outcomes = [self._fence_one(name, coordinators.get(name)) for name in ids]
        else:
            with ThreadPoolExecutor(at_once, thread_name_prefix="fencing") as threads:
                outcomes = list(threads.map(lambda name: self._fence_one(name, coordinators.get(name)), ids))
        self._client.interruption.check()
        return dict(zip(ids, outcomes, strict=True))

    def _find_coordinators(self, ids: Sequence[str]) -> Mapping[str, Address]:
        """Look up the coordinators of all ids once. Return the address of each coordinator that was found."""
        client = self._client
        try:
            rows = dict(ask_for_coordinators(client.cluster, ids, self._deadline, client.interruption))
        except BrokerUnavailableError:
            return {}
        return {name: (row.host, row.port) for name, row in rows.items() if row.error_code == Code.NONE}

    def _fence_one(self, name: str, address: Address | None) -> FencedProducer | KafkaError:
        """Ask the coordinator of an id to fence it.

        Find the coordinator first if it is unknown, and again if it has changed.
        """
        if self._deadline.passed:
            return FencingTimeoutError(name, self._timeout_ms, "no answer yet")
        cluster, interruption = self._client.cluster, self._client.interruption
        coordinator = TransactionCoordinator(cluster, name, address=address, interruption=interruption)
        try:
            fenced, _ = coordinator.init_producer_id(
                ProducerIdentity(), timeout_ms=_TRANSACTION_TIMEOUT_MS, deadline=self._deadline, at_least=0
            )
        except BrokerUnavailableError as error:
            return FencingTimeoutError(name, self._timeout_ms, str(error))
        except AuthorizationError:
            return AuthorizationError(f"transactional id {name}", _RIGHTS)
        except AuthenticationError:
            raise
        except KafkaError as error:
            return error
        finally:
            coordinator.close()
        return FencedProducer(fenced.producer_id, fenced.epoch)
