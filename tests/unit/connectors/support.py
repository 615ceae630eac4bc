"""Runs a source task without a worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.record import SourceBatch
from fencepost.api.source import SourceConnector, SourceTask
from fencepost.runtime.plugin_metrics import WorkerPluginMetrics


class CommittedOffsets:
    """Committed offsets of files: `{path: position}`."""

    def __init__(self, positions: Mapping[str, Any] | None = None) -> None:
        self.positions = dict(positions or {})

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        position = self.positions.get(partition["filename"])
        return None if position is None else {"position": position}

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        return [self.offset(partition) for partition in partitions]

    def items(self) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
        return [({"filename": path}, {"position": position}) for path, position in self.positions.items()]

    def commit(self, batch: SourceBatch) -> None:
        for partition, offset in batch.offsets:
            self.positions[partition["filename"]] = offset["position"]


class WholeOffsets:
    """Committed offsets of files with all fields: `{path: offset}`."""

    def __init__(self, committed: Mapping[str, Any] | None = None) -> None:
        self.committed = dict(committed or {})

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[Any]:
        return [self.committed.get(partition["filename"]) for partition in partitions]

    def items(self) -> list[tuple[dict[str, str], Any]]:
        return [({"filename": path}, offset) for path, offset in self.committed.items()]

    def commit(self, batch: SourceBatch) -> None:
        for partition, offset in batch.offsets:
            self.committed[partition["filename"]] = offset


class Context:
    """The task context that a worker provides."""

    transaction_context = None

    def __init__(
        self, offsets: Any, configs: Mapping[str, str] | None = None, allowed_paths: AllowedPaths = ANYWHERE
    ) -> None:
        self.offset_reader = offsets
        self.allowed_paths = allowed_paths
        self.plugin_metrics = WorkerPluginMetrics()
        self._configs = dict(configs or {})

    def configs(self) -> dict[str, str]:
        return self._configs


def start(
    task: SourceTask,
    config: Mapping[str, str],
    offsets: CommittedOffsets | None = None,
    allowed_paths: AllowedPaths = ANYWHERE,
) -> SourceTask:
    task.context = Context(offsets or CommittedOffsets(), allowed_paths=allowed_paths)
    task.start(config)
    return task


class ConnectorContext:
    """The connector context that a worker provides."""

    def __init__(self, configs: Mapping[str, str] | None = None, allowed_paths: AllowedPaths = ANYWHERE) -> None:
        self.offset_reader = CommittedOffsets()
        self.allowed_paths = allowed_paths
        self._configs = dict(configs or {})

    def configs(self) -> dict[str, str]:
        return self._configs

    def request_task_reconfiguration(self) -> None:
        raise AssertionError("nobody asks for this")

    def raise_error(self, error: Exception) -> None:
        raise error


def errors_in(
    connector: SourceConnector, config: Mapping[str, str], allowed_paths: AllowedPaths = ANYWHERE
) -> dict[str, list[str]]:
    """The errors that a connector finds in a configuration, by property."""
    connector.context = ConnectorContext(config, allowed_paths)
    return {value.name: value.errors for value in connector.validate(config) if value.errors}


def start_connector(
    connector: SourceConnector, config: Mapping[str, str], allowed_paths: AllowedPaths = ANYWHERE
) -> None:
    connector.context = ConnectorContext(config, allowed_paths)
    connector.start(config)
    connector.stop()


def read(batch: Any, column: str = "value") -> list[Any]:
    """The rows of a batch, as the engine would read them."""
    assert isinstance(batch, SourceBatch)
    assert batch.reader is not None
    tables = [pa.Table.from_batches([part]) for split in batch.splits for part in batch.reader.read(split)]
    return [row for table in tables for row in table.column(column).to_pylist()]


def read_to_end(task: SourceTask) -> list[Any]:
    """All rows up to the source's end, read like a worker that is to stop there."""
    rows: list[Any] = []
    while not task.at_end():
        batch = task.poll()
        rows += read(batch) if batch is not None else []
    return rows
