"""Waits for the answers to requests that are in flight on several connections."""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Sequence

from fencepost.kafka.transport.connection import Connection


def wait_for_answers(connections: Sequence[Connection], moments: Iterable[float] = ()) -> list[Connection]:
    """Return the connections that have an answer, or whose oldest answer is overdue. On these, `receive` does not wait.

    Each connection must have a request in flight. If there is no connection to return, this waits until one becomes
    ready, or until the earliest of the `moments` that lie in the future. The moments are times of the monotonic clock.
    If a moment comes first, the result may be empty.
    """
    ready = [connection for connection in connections if connection.answer_waiting]
    if ready:
        return ready
    now = time.monotonic()
    due = [connection.answer_due_at for connection in connections]
    due += [moment for moment in moments if moment > now]
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    readable = {descriptor for descriptor, _ in poll.poll(max(0.0, min(due, default=now) - now) * 1000 + 0.5)}
    now = time.monotonic()
    return [each for each in connections if each.fileno() in readable or each.answer_due_at <= now]
