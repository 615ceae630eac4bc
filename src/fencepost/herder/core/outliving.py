"""Waiting for work that several may wait for, or that has to come to its end whoever waits."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def outcome_of(work: asyncio.Future[T]) -> T:
    """Return what the work returns, or raise what it raises; it goes on if whoever waits is cancelled.

    Where nobody waits any more, its failure concerns nobody: asyncio would log it as one that was forgotten.
    """
    work.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(work)
