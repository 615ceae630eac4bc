"""Waits for the answers to requests that are in flight on several connections."""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Sequence

from fencepost.kafka.transport.connection import Connection


def wait_for_answers(connections: Sequence[Connection], moments: Iterable[float] = ()) -> list[Connection]:
    """Return the connections with an answer, or whose oldest answer is overdue: `Connection.receive` does not wait there.

    Each must have a request in flight. Waits until there is one to return, but only to the next of the `moments` on the
    monotonic clock: then there may be none. Moments that are over do not count.
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
