"""Shows and changes the committed source offsets of a connector outside of its tasks (KIP-875)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, Final

from fencepost.api.errors import FencepostError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.config.connector_config import ConnectorConfig
from fencepost.kafka.producer.record_producer import write_and_acknowledge
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.worker import Worker, new_connector_instance
from fencepost.storage.offsets.overlay import OffsetPage
from fencepost.storage.offsets.uncommitted import OffsetRecords

READING_MS: Final = 40_000
"""The time limit for reading each offsets topic: a request has 90 s, and its answer should name the cause."""


def committed_offsets(worker: Worker, config: ConnectorConfig) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
    """Return a connector's source partitions with their offsets. Raises what opening and reading its topics raises."""
    return worker.offsets(config).offsets(timeout_ms=READING_MS)


def offsets_page(worker: Worker, config: ConnectorConfig, after: str, limit: int) -> OffsetPage:
    """Return a part of the source partitions with their offsets (see OffsetView). Raises as `committed_offsets`."""
    return worker.offsets(config).page(after, limit, timeout_ms=READING_MS)


def alter_offsets(
    worker: Worker,
    config: ConnectorConfig,
    offsets: Iterable[tuple[SourcePartition | None, SourceOffset | None]],
    *,
    confirm: Callable[[], None],
) -> bool:
    """Set offsets in one transaction, None removes one; of duplicate partitions the last one counts.

    If the connector has its own offsets topic, the worker's topic gets a copy of each: removals before the commit, the
    rest after. An offset to remove that the own topic does not have is committed there first, in a transaction of its
    own: it stays valid if the second one is not committed. None of the connector's tasks may run: `confirm` raises if
    that is not true any more. It is called with all records written, before they are committed: a task that is started
    after that reads the offsets topic past them, and so waits for the end of the transaction. Returns whether the
    connector itself processed the offsets. Raises the connector's error if it refuses them, DataError for values that
    cannot be stored, and what `confirm` and writing raise.
    """
    store = worker.offsets(config)
    store.refresh(READING_MS)
    records = store.records()
    records.update(offsets)
    latest = records.latest()
    altered = new_connector_instance(worker.config, config).alter_offsets(dict(config.properties), latest)
    if latest:
        removed = [partition for partition, offset in latest if offset is None]
        with closing(worker.offset_producer(config)) as producer:
            if elsewhere := store.held_elsewhere(removed):
                moved = store.records()
                moved.update(elsewhere)
                _write(producer, store.topic, moved)
                confirm()
                producer.commit_transaction()
                store.refresh(READING_MS)
            _write(producer, store.topic, records)
            confirm()
            store.remove_copies(removed)
            producer.commit_transaction()
        records.committed()
    return altered


def reset_offsets(worker: Worker, config: ConnectorConfig, *, confirm: Callable[[], None]) -> bool:
    """Remove all offsets of a connector, from the worker's topic as well. Otherwise like `alter_offsets`."""
    partitions = worker.offsets(config).partitions(timeout_ms=READING_MS)
    return alter_offsets(worker, config, [(partition, None) for partition in partitions], confirm=confirm)


def _write(producer: TransactionalProducer, topic: str, records: OffsetRecords) -> None:
    """Write offsets into a new transaction."""
    producer.init_transactions()
    producer.begin_transaction()
    try:
        write_and_acknowledge(producer, topic, records.by_partition)
        records.written()
    except FencepostError as error:
        raise producer.resolve(error) from error
