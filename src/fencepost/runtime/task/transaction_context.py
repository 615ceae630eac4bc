"""The task's side of `transaction.boundary=connector`: the requests that it has made."""

from __future__ import annotations

import threading
from enum import Enum, auto
from typing import Final

from fencepost.api.errors import IllegalStateError
from fencepost.api.plugin_calls import kind_of
from fencepost.api.record import SourceRecord


class _Batch(Enum):
    THE_BATCH = auto()


_THE_BATCH: Final = _Batch.THE_BATCH


class Request(Enum):
    """A task's request about its transaction."""

    COMMIT = "commit"
    ABORT = "abort"


class WorkerTransactionContext:
    """Implements `fencepost.TransactionContext`. Records are distinguished by identity. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batch: set[Request] = set()
        # The records are kept as well, so that no other record can get the same identity as a record with a request.
        self._records: dict[int, tuple[SourceRecord, set[Request]]] = {}

    def commit_transaction(self, record: SourceRecord | _Batch | None = _THE_BATCH) -> None:
        """Request a commit after `record`, or after the batch. Raises IllegalStateError if the record is None."""
        self._ask(Request.COMMIT, record)

    def abort_transaction(self, record: SourceRecord | _Batch | None = _THE_BATCH) -> None:
        """Request an abort after `record`, or after the batch. Raises IllegalStateError if the record is None."""
        self._ask(Request.ABORT, record)

    def is_requested_for(self, record: SourceRecord) -> bool:
        """Return whether there is a request for `record`."""
        return id(record) in self._records

    def has_record_requests(self) -> bool:
        """Return whether there is a request for any record."""
        return bool(self._records)

    def take_record_request(self, record: SourceRecord) -> Request | None:
        """Remove and return the request for `record`.

        Raises IllegalStateError if both a commit and an abort were requested.
        """
        with self._lock:
            _, requests = self._records.pop(id(record), (record, set()))
        if len(requests) > 1:
            topic = "the connector's topic" if record.topic is None else f"topic {record.topic}"
            partition = "" if record.partition is None else f", partition {record.partition}"
            raise IllegalStateError(
                "The task asked both to commit and to abort the transaction after the same record, which is for "
                f"{topic}{partition}, of {dict(record.source_partition)} at {dict(record.source_offset)}"
            )
        return next(iter(requests), None)

    def take_batch_request(self) -> Request | None:
        """Remove and return the request for the batch.

        Raises IllegalStateError if both a commit and an abort were requested.
        """
        with self._lock:
            requests, self._batch = self._batch, set()
        if len(requests) > 1:
            raise IllegalStateError("The task asked both to commit and to abort the transaction after the same batch")
        return next(iter(requests), None)

    def _ask(self, request: Request, record: SourceRecord | _Batch | None) -> None:
        if record is None:
            raise IllegalStateError(
                f"{request.value}_transaction(None): give a record that poll returns, or no argument for the batch"
            )
        if not isinstance(record, SourceRecord | _Batch):
            raise IllegalStateError(
                f"{request.value}_transaction() was given {kind_of(record)}: give a record that poll returns, or no "
                "argument for the batch"
            )
        with self._lock:
            if isinstance(record, _Batch):
                self._batch.add(request)
            else:
                self._records.setdefault(id(record), (record, set()))[1].add(request)
