from __future__ import annotations

import asyncio
import threading
from typing import Any

from fencepost.herder.work.worker_parts import WorkerParts
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.state import ClusterConfigState
from tests.support.model_herder import model_worker_config


class _Parts(WorkerParts):
    state = ClusterConfigState()


def _in_loop(scenario: Any) -> Any:
    async def run() -> Any:
        return await scenario(_Parts(Worker(model_worker_config()), asyncio.get_running_loop()))

    return asyncio.run(run())


def test_blocking_functions_run_on_threads_and_their_results_come_back() -> None:
    async def scenario(parts: _Parts) -> tuple[int, str]:
        return await parts.run(threading.get_ident), await parts.run("{}-{b}".format, "a", b="b")

    thread, text = _in_loop(scenario)
    assert thread != threading.get_ident()
    assert text == "a-b"


def test_a_thread_waits_for_a_coroutine_on_the_loop() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    async def scenario(parts: _Parts) -> asyncio.AbstractEventLoop:
        await parts.run(lambda: parts.on_loop(note()))
        return parts.loop

    assert loops == [_in_loop(scenario)]


def test_starts_and_stops_take_turns() -> None:
    async def scenario(parts: _Parts) -> int:
        inside = most = 0

        async def start() -> None:
            nonlocal inside, most
            async with parts.turn():
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(start() for _ in range(50)))
        return most

    assert 0 < _in_loop(scenario) < 50


def test_all_configs_returns_the_workers_and_the_connectors_properties() -> None:
    async def scenario(parts: _Parts) -> list[Any]:
        return parts.all_configs()

    [own] = _in_loop(scenario)
    assert own["group.id"] == model_worker_config().group_id
