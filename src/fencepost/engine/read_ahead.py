"""Reads ahead on a thread, so that reading from a source overlaps with converting and sending."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Final, TypeVar

T = TypeVar("T")

DEPTH: Final = 2
"""The number of items to read ahead. It limits the memory: batches of a file reader have one to four megabytes."""


class _End:
    """The item after the last one in the queue. It contains the error that ended the reading, if there was one."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def read_ahead(items: Iterator[T], depth: int = DEPTH) -> Iterator[T]:
    """Yield `items`, of which up to `depth` items are read in advance. Raises the errors of the iterator."""
    ready: queue.Queue[T | _End] = queue.Queue(depth)
    abandoned = threading.Event()

    def read() -> None:
        end = _End()
        try:
            for item in items:
                if not _offer(ready, item, abandoned):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again where the items are taken
            end = _End(error)
        _offer(ready, end, abandoned)

    thread = threading.Thread(target=read, name="read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        abandoned.set()
        thread.join()


def _offer(ready: queue.Queue[T | _End], item: T | _End, abandoned: threading.Event) -> bool:
    """Put an item into the queue, unless the consumer has stopped.

    While the queue is full, the function checks repeatedly whether the consumer has stopped.
    """
    while not abandoned.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
