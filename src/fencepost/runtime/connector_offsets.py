"""Shows and changes the committed source offsets of a connector outside of its tasks (KIP-875)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, Final

from fencepost.api.errors import FencepostError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.validation_context import ValidationContext
from fencepost.kafka.producer.record_producer import write_and_acknowledge
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.worker import Worker, new_connector_instance
from fencepost.storage.offsets.overlay import OffsetPage
from fencepost.storage.offsets.uncommitted import OffsetRecords

READING_MS: Final = 40_000
"""The time limit for reading each offsets topic. A request may take 90 s, and its answer should name the cause."""


def committed_offsets(worker: Worker, config: ConnectorConfig) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
    """Return a connector's source partitions with their offsets.

    Raises the errors of opening and reading its topics.
    """
    return worker.offsets(config).offsets(timeout_ms=READING_MS)


def offsets_page(worker: Worker, config: ConnectorConfig, after: str, limit: int) -> OffsetPage:
    """Return a part of the source partitions with their offsets (see OffsetView).

    Raises the errors of `committed_offsets`.
    """
    return worker.offsets(config).page(after, limit, timeout_ms=READING_MS)


def alter_offsets(
    worker: Worker,
    config: ConnectorConfig,
    offsets: Iterable[tuple[SourcePartition | None, SourceOffset | None]],
    *,
    confirm: Callable[[], None],
) -> bool:
    """Set offsets in one transaction; None removes an offset. If a partition is given twice, the last offset counts.

    None of the connector's tasks may run. The connector may refuse the offsets, and add fields to them
    (`bind_offsets`). Returns whether the connector itself processed the offsets.

    If the connector has its own offsets topic, each offset is copied to the worker's topic: removals before the commit,
    other offsets after it. If an offset to remove is missing in the connector's own topic, it is first committed there,
    in a separate transaction, so that it stays valid if the second transaction is not committed.

    `confirm` raises an error if another worker may have started tasks. It is called after all records are written and
    before the commit. So no task can start with the old offsets unnoticed: a task that starts after the call reads the
    offsets topic to its end, and so waits for the end of the transaction.

    Raises the connector's error if it refuses the offsets, DataError for values that cannot be stored, and the errors
    of `confirm` and of writing.
    """
    store = worker.offsets(config)
    store.refresh(READING_MS)
    records = store.records()
    records.update(offsets)
    latest = records.latest()
    instance = new_connector_instance(worker.config, config)
    reader = store.reader(timeout_ms=READING_MS)
    instance.set_context(ValidationContext(config.properties, worker.config.allowed_paths, reader))
    altered = instance.alter_offsets(dict(config.properties), latest)
    records.update(instance.bind_offsets(dict(config.properties), latest))
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
    """Remove all offsets of a connector, from the worker's topic as well. Otherwise the same as `alter_offsets`."""
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
