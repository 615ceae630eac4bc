"""Fences producers by their transactional ids, many at once (the admin call of KIP-618).

Each id is initialized by its transaction coordinator (InitProducerId), which bumps its epoch and aborts its open
transaction: former owners of the id are refused from then on. Coordinators are looked up in batches, and each
coordinator fences several ids at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import kafka.errors as client_errors
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest
from kafka.protocol.producer.transaction import InitProducerIdRequest

from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import AuthorizationError, KafkaError
from fencepost.kafka.transport.control_client import TRANSIENT, ControlClient, refusal, remaining_ms

DEFAULT_TIMEOUT_MS: Final = 30_000

# Ids in one FindCoordinator request, and the version from which it takes more than one.
_LOOKUP_BATCH: Final = 500
_BATCHED_LOOKUP: Final = 4
# kafka-python refuses more than 5 requests in flight on a connection; one is left for looking up coordinators.
_REQUESTS_PER_COORDINATOR: Final = 4
# No transaction begins under this; it only has to be within the broker's transaction.max.timeout.ms.
_TRANSACTION_TIMEOUT_MS: Final = 1_000
_RETRY_MS: Final = 20
_NAMED_IN_MESSAGE: Final = 10
_RIGHTS: Final = "WRITE and DESCRIBE"

_COORDINATOR_MOVED: Final = (
    client_errors.NotCoordinatorError,
    client_errors.CoordinatorNotAvailableError,
    client_errors.KafkaConnectionError,
    client_errors.RequestTimedOutError,
    client_errors.UnknownBrokerIdError,
    client_errors.Cancelled,
)


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The coordinator's answer when an id was fenced: former owners have a lower epoch or another id."""

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
    """The outcome for each transactional id; the names are those of Kafka's admin client."""

    def __init__(self, outcomes: Mapping[str, FencedProducer | KafkaError]) -> None:
        self._outcomes = outcomes

    @property
    def fenced_producers(self) -> Mapping[str, FencedProducer | KafkaError]:
        """The outcome of each id, or the reason why it was not fenced."""
        return self._outcomes

    def producer_id(self, transactional_id: str) -> int:
        """Return the producer id that the fencing of an id got. Raises the reason if it failed."""
        return self._fenced(transactional_id).producer_id

    def epoch_id(self, transactional_id: str) -> int:
        """Return the epoch that the fencing of an id got. Raises the reason if it failed."""
        return self._fenced(transactional_id).epoch

    def all(self) -> None:
        """Make sure that all are fenced.

        Raises the reason if one failed; if several did, AuthorizationError or FencingError, which name them.
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


async def fence(client: ControlClient, ids: Iterable[str], timeout_ms: float) -> FenceProducersResult:
    """Fence each transactional id. The result contains the failures; a single failure raises nothing."""
    unique = list(dict.fromkeys(ids))
    outcomes = await _Round(client, timeout_ms).fence(unique)
    return FenceProducersResult({name: outcomes[name] for name in unique})


class _Round:
    """The ids of one call: by coordinator, with the last problem of each."""

    def __init__(self, client: ControlClient, timeout_ms: float) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._deadline = Deadline.after(timeout_ms)
        self._outcomes: dict[str, FencedProducer | KafkaError] = {}
        self._last_problem: dict[str, str] = {}

    async def fence(self, ids: Sequence[str]) -> Mapping[str, FencedProducer | KafkaError]:
        """Retry until every id has an outcome or the time is up."""
        open_ids = list(ids)
        while open_ids and not self._deadline.passed:
            coordinators = await self._find_coordinators(open_ids)
            await self._client.gather(list(self._workers(coordinators)))
            open_ids = [name for name in open_ids if name not in self._outcomes]
            if open_ids:
                await self._client.sleep(remaining_ms(self._deadline, _RETRY_MS))
        for name in open_ids:
            problem = self._last_problem.get(name, "no answer yet")
            self._outcomes[name] = FencingTimeoutError(name, self._timeout_ms, problem)
        return self._outcomes

    def _workers(self, coordinators: Mapping[int, list[str]]) -> Iterator[Callable[[], Awaitable[None]]]:
        for node_id, names in coordinators.items():
            # The workers of a coordinator take from the same iterator.
            queue = iter(names)
            for _ in range(min(_REQUESTS_PER_COORDINATOR, len(names))):
                yield partial(self._fence_from, queue, node_id)

    async def _fence_from(self, queue: Iterator[str], node_id: int) -> None:
        for name in queue:
            if self._deadline.passed:
                return
            await self._fence_one(name, node_id)

    async def _fence_one(self, name: str, node_id: int) -> None:
        """Ask the coordinator until its answer is final; an id whose coordinator moved waits for the next look-up."""
        while not self._deadline.passed:
            try:
                response = await self._client.send(
                    InitProducerIdRequest(
                        transactional_id=name,
                        transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
                        producer_id=-1,
                        producer_epoch=-1,
                    ),
                    node_id,
                    timeout_ms=self._request_timeout_ms(),
                )
                if self._settled(name, response.error_code):
                    self._outcomes[name] = FencedProducer(response.producer_id, response.producer_epoch)
            except _COORDINATOR_MOVED as error:
                self._last_problem[name] = str(error)
                return
            except TRANSIENT as error:
                self._last_problem[name] = str(error)
                await self._client.sleep(remaining_ms(self._deadline, _RETRY_MS))
            else:
                return

    async def _find_coordinators(self, ids: Sequence[str]) -> Mapping[int, list[str]]:
        """The ids by coordinator; without those that have none yet or failed fatally."""
        coordinators: dict[int, list[str]] = defaultdict(list)
        for batch, request in self._lookups(ids):
            try:
                response = await self._client.send(request, timeout_ms=self._request_timeout_ms())
            except TRANSIENT as error:
                self._last_problem |= dict.fromkeys(batch, str(error))
                await self._client.refresh_brokers(self._request_timeout_ms())
                continue
            rows = response.coordinators if response.API_VERSION >= _BATCHED_LOOKUP else [response]
            for name, row in zip(batch, rows, strict=True):
                found_for = getattr(row, "key", None) or name
                try:
                    if self._settled(found_for, row.error_code):
                        coordinators[row.node_id].append(found_for)
                except TRANSIENT as error:
                    self._last_problem[found_for] = str(error)
        return coordinators

    def _lookups(self, ids: Sequence[str]) -> Iterator[tuple[Sequence[str], Any]]:
        kind = CoordinatorType.TRANSACTION.value
        if self._client.latest_version(FindCoordinatorRequest) >= _BATCHED_LOOKUP:
            for start in range(0, len(ids), _LOOKUP_BATCH):
                batch = ids[start : start + _LOOKUP_BATCH]
                request = FindCoordinatorRequest(key_type=kind, coordinator_keys=batch, min_version=_BATCHED_LOOKUP)
                yield batch, request
        else:
            for name in ids:
                yield [name], FindCoordinatorRequest(key_type=kind, key=name, max_version=_BATCHED_LOOKUP - 1)

    def _settled(self, name: str, error_code: int) -> bool:
        """Whether an answer has no error. A fatal error becomes the id's outcome, a retriable one is raised."""
        error = client_errors.for_code(error_code)
        if error is client_errors.NoError:
            return True
        if issubclass(error, TRANSIENT):
            raise error(error.__name__.removesuffix("Error"))
        if error is client_errors.TransactionalIdAuthorizationFailedError:
            self._outcomes[name] = AuthorizationError(f"transactional id {name}", _RIGHTS)
        else:
            self._outcomes[name] = refusal(error(), f"fencing the producer {name}")
        return False

    def _request_timeout_ms(self) -> float:
        return remaining_ms(self._deadline, self._client.config.request_timeout_ms)
