"""Shows and changes the committed source offsets of a connector from outside of its tasks (KIP-875)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

from fencepost.api.errors import FencepostError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.config.connector_config import ConnectorConfig
from fencepost.kafka.producer import TransactionalProducer
from fencepost.runtime.worker import Worker, new_connector_instance
from fencepost.storage.offset_store import OffsetStore

_Offsets = Mapping[SourcePartition, SourceOffset | None]


def committed_offsets(worker: Worker, config: ConnectorConfig) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return a connector's source partitions with their offsets. Raises what opening and reading the topic raises."""
    return worker.offsets(config).offsets(config.name)


def alter_offsets(
    worker: Worker, config: ConnectorConfig, offsets: Iterable[tuple[SourcePartition, SourceOffset | None]]
) -> bool:
    """Set offsets in one transaction, None removes one; of a partition that is given twice the last one counts.

    None of the connector's tasks may run. Returns whether the connector itself took note of them. Raises what the
    connector raises to refuse them, DataError for what cannot be stored, and what writing raises.
    """
    latest: dict[SourcePartition, SourceOffset | None] = {_Key(partition): offset for partition, offset in offsets}
    told = new_connector_instance(config).alter_offsets(dict(config.properties), latest)
    if latest:
        _write(worker, config, latest)
    return told


def reset_offsets(worker: Worker, config: ConnectorConfig) -> bool:
    """Remove all offsets of a connector. Returns and raises as `alter_offsets`."""
    return alter_offsets(worker, config, [(partition, None) for partition, _ in committed_offsets(worker, config)])


class _Key(Mapping[str, Any]):
    """A source partition as the key of a mapping."""

    def __init__(self, partition: SourcePartition) -> None:
        self._partition = dict(partition)
        self._identity = frozenset((name, type(value), value) for name, value in partition.items())

    def __getitem__(self, name: str) -> Any:
        return self._partition[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._partition)

    def __len__(self) -> int:
        return len(self._partition)

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other._identity == self._identity


def _write(worker: Worker, config: ConnectorConfig, offsets: _Offsets) -> None:
    store = worker.offsets(config)
    store.refresh()
    with closing(worker.offset_producer(config)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        try:
            _send(producer, store, config.name, offsets)
        except FencepostError as error:
            raise producer.resolve(error) from error
        producer.commit_transaction()


def _send(producer: TransactionalProducer, store: OffsetStore, connector: str, offsets: _Offsets) -> None:
    records = store.records(connector)
    records.update(offsets.items())
    with closing(producer.writer()) as writer:
        for partition, rows in records.by_partition(writer.partitions(store.topic)):
            writer.write(store.topic, partition, rows)
        producer.acknowledge(writer.flush())
