"""Waits for work that several callers may share, or that must finish even if its waiters are cancelled."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def outcome_of(work: asyncio.Future[T]) -> T:
    """Return the result of the work, or raise its exception; the work continues if the waiter is cancelled.

    Without waiters its failure is retrieved, because asyncio would log it as a never retrieved exception.
    """
    work.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(work)
