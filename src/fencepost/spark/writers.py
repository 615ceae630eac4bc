"""Who writes the sinks of an application: one function in one query at a time.

A second function for a sink in one query would find each batch written, and skip it. A second query would fence the first,
before it is refused for its checkpoint, and both would fail.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.spark.streaming_batch import StreamingBatch


class Writers:
    """Knows the function that writes a sink, and a batch of the query in which it does. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[weakref.ref[Any], StreamingBatch]] = {}
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
