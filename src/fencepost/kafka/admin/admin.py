"""The admin client: creates and describes topics, fences producers, lists and aborts transactions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest

from fencepost.api.closing import Closing
from fencepost.api.errors import ConfigError
from fencepost.config.internal_topics import AUTOMATIC_CREATION, InternalTopic
from fencepost.kafka.admin import fencing
from fencepost.kafka.admin.fencing import FenceProducersResult
from fencepost.kafka.admin.hanging_transactions import abort_hanging
from fencepost.kafka.admin.open_transactions import (
    ONGOING,
    NoOpenTransactionError,
    OpenTransaction,
    list_open_transactions,
)
from fencepost.kafka.admin.topic_creation import NewTopic, create_topics, listed
from fencepost.kafka.admin.topic_deletion import delete_topics, topic_names
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.errors import AuthorizationError
from fencepost.kafka.producer.coordinator_requests import TRANSACTION_REQUESTS
from fencepost.kafka.producer.transaction import ProducerIdentity
from fencepost.kafka.transport.broker_client import BrokerClient
from fencepost.kafka.transport.connection import too_old
from fencepost.kafka.transport.error_codes import Code, refused
from fencepost.kafka.transport.topic_leaders import metadata_error, topic_row
from fencepost.kafka.transport.topic_settings import DISKLESS
from fencepost.version import __version__

CLEANUP_POLICY: Final = "cleanup.policy"
COMPACT: Final = "compact"

_LOG: Final = logging.getLogger(__name__)

_SEE_SETTINGS: Final = "DESCRIBE_CONFIGS"
_TOPIC_RESOURCE: Final = 2
_USUAL_REPLICATION_FACTOR: Final = 3


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """An existing topic. `configs` holds every setting with its effective value, defaults included."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


class Admin(Closing):
    """Administers one cluster. Threads may share it; calls then wait for each other."""

    def __init__(self, config: ClientConfig) -> None:
        self._client = BrokerClient(config)

    def create_topics(self, *topics: NewTopic) -> dict[str, bool]:
        """Create topics, and wait until their partitions have leaders.

        The result is False for topics that already exist.

        An existing topic is not changed. Raises TopicCreationError or AuthorizationError for the first topic that the
        cluster refuses; the other topics are created nevertheless.
        """
        return self._client.run(
            create_topics, self._client, topics, doing=f"creating topic {listed([topic.name for topic in topics])}"
        )

    def describe_topic(self, name: str) -> TopicDescription | None:
        """Return a topic's partitions and settings; None if the topic does not exist.

        Raises AuthorizationError without DESCRIBE and DESCRIBE_CONFIGS on the topic.
        """
        return self._client.run(self._describe, name, doing=f"describing topic {name}")

    def topic_exists(self, name: str) -> bool:
        """Return whether the brokers know a topic. Raises AuthorizationError without DESCRIBE on the topic."""
        return self._client.run(self._row, name, doing=f"describing topic {name}") is not None

    def topic_names(self) -> frozenset[str]:
        """Return the names of the topics that the principal may describe."""
        return self._client.run(topic_names, self._client, doing="listing the topics")

    def delete_topics(self, *names: str) -> None:
        """Delete topics, and wait until the brokers do not list them any more. A missing topic is not an error.

        Raises AuthorizationError if the principal lacks DELETE on one of the topics.
        """
        self._client.run(delete_topics, self._client, names, doing=f"deleting topic {listed(names)}")

    def topic_id(self, name: str) -> str | None:
        """Return the id of a topic. If the topic is deleted and created again, the id changes.

        The result is None if the topic does not exist, and from brokers before Kafka 2.8. Raises AuthorizationError
        without DESCRIBE on the topic.
        """
        row = self._client.run(self._row, name, doing=f"describing topic {name}")
        known = row is not None and row.topic_id is not None and row.topic_id.int
        return str(row.topic_id) if known else None

    def broker_count(self) -> int:
        """Return how many brokers the cluster has."""
        return self._client.run(self._count_brokers, doing="counting the brokers")

    def usual_replication_factor(self) -> int:
        """Return the default replication factor of an internal topic: 1 in a cluster of one broker, else 3."""
        return 1 if self.broker_count() == 1 else _USUAL_REPLICATION_FACTOR

    def require_transactions(self) -> None:
        """Make sure that a broker supports the requests of transactions, in the versions that exactly-once needs.

        Raises UnsupportedBrokerError.
        """
        self._client.run(self._require_transactions, doing="asking for the requests that the brokers know")

    def cluster_id(self) -> str:
        """Return the id of the Kafka cluster."""
        return self._client.run(self._cluster_id, doing="asking for the id of the cluster")

    def ensure_compacted_topic(self, topic: InternalTopic) -> bool:
        """Make sure that an internal topic exists and is compacted. Returns True if this call created the topic.

        Raises ConfigError if the topic is missing and workers must not create it (`created` is False), if it is
        diskless, or if it has another `cleanup.policy`, which would lose state over time. Raises the errors of
        `create_topics`, too. If the topic exists, only the right DESCRIBE is needed.
        """
        if self.exists_compacted(topic.name):
            return False
        if not topic.created:
            raise missing_internal_topics([topic.name])
        replicas = topic.replication_factor
        replicas = self.usual_replication_factor() if replicas is None else replicas
        settings = {**topic.settings, CLEANUP_POLICY: COMPACT}
        if self.create_topics(NewTopic(topic.name, topic.partitions, replicas, settings))[topic.name]:
            return True
        # Another worker has created the topic meanwhile.
        self.exists_compacted(topic.name)
        return False

    def exists_compacted(self, name: str) -> bool:
        """Whether a topic exists. Raises ConfigError if it exists and is known to be diskless, or not compacted."""
        try:
            description = self.describe_topic(name)
        except AuthorizationError as error:
            if error.operation != _SEE_SETTINGS:
                raise
            # Kafka Connect does not require this right of a worker's principal. The topic exists, which is sufficient.
            _LOG.warning("Cannot see whether topic %s is compacted, as it must be: %s", name, error)
            return True
        if description and description.configs.get(DISKLESS) == "true":
            raise ConfigError(
                f"Topic {name} is diskless ({DISKLESS}=true), which can be neither compacted nor part of transactions: "
                f"create it with {DISKLESS}=false, or configure another topic",
                name=DISKLESS,
            )
        policy = description.configs.get(CLEANUP_POLICY) if description else COMPACT
        if policy != COMPACT:
            raise ConfigError(
                f"Topic {name} exists with {CLEANUP_POLICY}={policy}, so it would lose state when old records are "
                f"deleted: set {CLEANUP_POLICY}={COMPACT} on it (kafka-configs.sh --alter --topic {name} --add-config "
                f"{CLEANUP_POLICY}={COMPACT}), or configure another topic",
                name=CLEANUP_POLICY,
            )
        return description is not None

    def fence_producers(
        self, ids: Iterable[str], *, timeout_ms: float = fencing.DEFAULT_TIMEOUT_MS
    ) -> FenceProducersResult:
        """Fence the producers of transactional ids: their open transactions abort, and they can write nothing more.

        If an id is not fenced in time, or the principal lacks WRITE and DESCRIBE on it, the result contains the
        failure. Call `all()` of the result to raise failures.
        """
        return self._client.run(fencing.fence, self._client, ids, timeout_ms, doing="fencing producers")

    def open_transactions(self) -> list[OpenTransaction]:
        """Return the cluster's open transactions, the oldest first.

        Transactional ids on which the principal lacks DESCRIBE are omitted. Raises UnsupportedBrokerError before Kafka
        3.0.
        """
        return self._client.run(list_open_transactions, self._client, doing="listing open transactions")

    def abort_transaction(self, transactional_id: str) -> OpenTransaction:
        """Abort an open transaction by fencing its producer; return the transaction.

        Raises NoOpenTransactionError if there is no transaction or its coordinator is ending it, AuthorizationError,
        and FencingTimeoutError.
        """
        transactions = {transaction.transactional_id: transaction for transaction in self.open_transactions()}
        transaction = transactions.get(transactional_id)
        if transaction is None:
            raise NoOpenTransactionError(
                f"The transactional id {transactional_id} has no open transaction that can be seen: check the name, "
                "and that the principal has DESCRIBE on it"
            )
        if transaction.state != ONGOING:
            raise NoOpenTransactionError(
                f"The transaction of {transactional_id} cannot be aborted: broker {transaction.coordinator} is ending it "
                f"({transaction.state}); if that persists, check the health of the brokers that lead its partitions"
            )
        self.fence_producers([transactional_id]).all()
        return transaction

    def abort_hanging_transaction(self, topic: str, partition: int, start_offset: int) -> ProducerIdentity:
        """Abort a transaction that no coordinator knows, in one partition. Its first record is at `start_offset`.

        Returns its producer. Raises NoOpenTransactionError if there is no transaction or a coordinator knows it,
        TopicNotFoundError, AuthorizationError without READ on the topic and ALTER on the cluster, and
        UnsupportedBrokerError before Kafka 3.0.
        """
        doing = f"aborting a transaction in {topic}-{partition}"
        return self._client.run(abort_hanging, self._client, topic, partition, start_offset, doing=doing)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _row(self, name: str) -> Any:
        """Return the metadata of a topic; None if the brokers do not know the topic."""
        row = topic_row(self._client, name)
        if row.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        if row.error_code != Code.NONE:
            raise metadata_error(row.error_code, name)
        return row

    def _describe(self, name: str) -> TopicDescription | None:
        row = self._row(name)
        if row is None:
            return None
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None
        )
        response = self._client.send(DescribeConfigsRequest(resources=[resource]))
        result = response.results[0]
        if result.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            # The topic was deleted after the metadata request, or this broker does not know the new topic yet.
            return None
        if result.error_code == Code.TOPIC_AUTHORIZATION_FAILED:
            raise AuthorizationError(f"topic {name}", _SEE_SETTINGS)
        if result.error_code != Code.NONE:
            raise refused(f"describing the settings of topic {name}", result.error_code, result.error_message)
        return TopicDescription(
            name=name,
            partitions=len(row.partitions),
            replication_factor=len(row.partitions[0].replica_nodes),
            configs={config.name: config.value for config in result.configs},
        )

    def _require_transactions(self) -> None:
        answer = self._client.send(
            ApiVersionsRequest(client_software_name="fencepost", client_software_version=__version__)
        )
        highest = {api.api_key: api.max_version for api in answer.api_keys}
        for request, needed in TRANSACTION_REQUESTS.items():
            if highest.get(request.API_KEY, -1) < needed:
                broker = "at " + ",".join(self._client.config.bootstrap_servers)
                raise too_old(broker, request, highest.get(request.API_KEY, -1), needed)

    def _cluster_id(self) -> str:
        return self._client.metadata().cluster_id or ""

    def _count_brokers(self) -> int:
        return len(self._client.metadata().brokers)


def missing_internal_topics(names: Sequence[str]) -> ConfigError:
    """Return the error for internal topics that do not exist and that workers may not create."""
    found = f"Topic {names[0]} does" if len(names) == 1 else f"The topics {', '.join(names)} do"
    return ConfigError(
        f"{found} not exist, and {AUTOMATIC_CREATION} is false: create what is missing with `fencepost topics create "
        "WORKER.properties`, or as `fencepost topics create --dry-run WORKER.properties` shows it",
        name=AUTOMATIC_CREATION,
    )
