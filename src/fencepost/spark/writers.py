"""Who writes the sinks of an application: one function in one query at a time, with one DataFrame for each batch.

A second function for a sink in one query would find each batch written, and skip it, and so would a second call of the
function for a batch. A second query would fence the first, before it is refused for its checkpoint, and both would fail.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.spark.streaming_batch import StreamingBatch


class Writers:
    """Knows the function that writes a sink, a batch of the query in which it does, and the last call. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[weakref.ref[Any], StreamingBatch]] = {}
        self._calls: dict[Hashable, tuple[str, int, int]] = {}
        self._lock: Final = threading.Lock()

    def claim(
        self,
        sink: str,
        function: object,
        batch: StreamingBatch,
        *,
        brokers: Hashable,
        is_running: Callable[[StreamingBatch], bool],
    ) -> None:
        """Make `function` the writer of a sink in the run of a query that `batch` is of.

        Raises ConfigError if another function writes the sink in the same run, or if another run does that `is_running`.
        """
        with self._lock:
            former, known = self._known.get((brokers, sink), (lambda: None, batch))
            if known.run == batch.run and former() not in (None, function):
                raise ConfigError(
                    f"Two functions of exactly_once(...) write to sink {sink} in one query, so the second would find each "
                    "batch written: give each a name of its own (name=...)",
                    name="name",
                )
            if known.run != batch.run and is_running(known):
                raise ConfigError(
                    f"Sink {sink} is written by query {known.query}, which runs in this application: stop that query, or "
                    "give this one's sink another name (name=...)",
                    name="name",
                )
            self._known[brokers, sink] = weakref.ref(function), batch

    @contextmanager
    def call(self, sink: str, batch: StreamingBatch, plan: int, *, brokers: Hashable) -> Iterator[None]:
        """Enclose a call for a batch, with a DataFrame whose plan has the hash `plan`. One that fails does not count.

        Raises ConfigError if the batch had a call with another DataFrame in the same run: its rows would be lost. With
        the same DataFrame the user's code repeats the call.
        """
        key, new = (brokers, sink), (batch.run, batch.batch, plan)
        with self._lock:
            former = self._calls.get(key)
            if former is not None and former[:2] == new[:2] and former != new:
                raise ConfigError(
                    f"The function of sink {sink} was called twice for batch {batch.batch}, with two DataFrames. A batch is "
                    "one transaction, so only the rows of the first are in Kafka: write the second by a function of its "
                    f"own with a name (name=...), and first.batch={batch.batch}",
                    name="name",
                )
            self._calls[key] = new
        try:
            yield
        except BaseException:
            with self._lock:
                if former is None:
                    del self._calls[key]
                else:
                    self._calls[key] = former
            raise
