"""Work that goes on when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import Any

from fencepost.herder.core.outliving import outcome_of


async def _fails_when(told: asyncio.Event) -> None:
    await told.wait()
    raise ValueError("no broker")


def test_work_continues_without_its_waiter_and_its_failure_is_not_logged() -> None:
    forgotten: list[dict[str, Any]] = []

    async def run() -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: forgotten.append(context))
        told = asyncio.Event()
        work = asyncio.ensure_future(_fails_when(told))
        waiting = asyncio.ensure_future(outcome_of(work))
        await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        went_on = not work.done()
        told.set()
        await asyncio.wait([work])
        return went_on

    assert asyncio.run(run())
    gc.collect()
    assert forgotten == []


def test_all_waiters_get_the_failure() -> None:
    async def run() -> None:
        told = asyncio.Event()
        told.set()
        work = asyncio.ensure_future(_fails_when(told))
        for failed in await asyncio.gather(outcome_of(work), outcome_of(work), return_exceptions=True):
            assert isinstance(failed, ValueError)

    asyncio.run(run())
