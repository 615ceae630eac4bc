"""How connectors and tasks move to their planned state."""

from __future__ import annotations

import asyncio

from fencepost.herder.core.convergence import Converging


class Follower(Converging[str]):
    """Records its steps, each of which waits for `may_step`."""

    def __init__(self) -> None:
        super().__init__("follower")
        self.steps: list[tuple[str | None, str | None]] = []
        self.may_step = asyncio.Event()
        self.may_step.set()

    async def _step(self, before: str | None, wanted: str | None) -> str | None:
        await self.may_step.wait()
        self.steps.append((before, wanted))
        # Like a task: it stops before it follows another plan.
        return None if before is not None else wanted


def test_another_plan_is_followed_step_by_step() -> None:
    async def run() -> list[tuple[str | None, str | None]]:
        follower = Follower()
        follower.want("a")
        await follower.settled()
        follower.want("b")
        await follower.settled()
        follower.want(None)
        await follower.settled()
        assert follower.gone
        return follower.steps

    assert asyncio.run(run()) == [(None, "a"), ("a", "b"), (None, "b"), ("b", None)]


def test_the_latest_target_counts_and_intermediate_ones_are_skipped() -> None:
    async def run() -> list[tuple[str | None, str | None]]:
        follower = Follower()
        follower.may_step.clear()
        for plan in ("a", "b", "c"):
            follower.want(plan)
            await asyncio.sleep(0)
        follower.may_step.set()
        await follower.settled()
        return follower.steps

    # The first step had begun before the other plans were set.
    assert asyncio.run(run()) == [(None, "a"), ("a", "c"), (None, "c")]


def test_the_same_plan_again_changes_nothing() -> None:
    async def run() -> list[tuple[str | None, str | None]]:
        follower = Follower()
        follower.want("a")
        await follower.settled()
        follower.want("a")
        await follower.settled()
        return follower.steps

    assert asyncio.run(run()) == [(None, "a")]


def test_a_step_that_is_taken_again_starts_from_the_plan() -> None:
    async def run() -> list[tuple[str | None, str | None]]:
        follower = Follower()
        follower.want("a")
        await follower.settled()
        follower.step_again()
        await follower.settled()
        return follower.steps

    # The follower stops at its plan, so it takes the next step by itself.
    assert asyncio.run(run()) == [(None, "a"), ("a", "a"), (None, "a")]


def test_a_step_that_is_asked_for_during_another_one_is_taken_after_it() -> None:
    async def run() -> list[tuple[str | None, str | None]]:
        follower = Follower()
        follower.may_step.clear()
        follower.want("a")
        await asyncio.sleep(0)
        follower.step_again()
        follower.may_step.set()
        await follower.settled()
        return follower.steps

    assert asyncio.run(run()) == [(None, "a"), ("a", "a"), (None, "a")]


def test_nothing_is_done_again_without_a_plan() -> None:
    async def run() -> list[tuple[str | None, str | None]]:
        follower = Follower()
        follower.step_again()
        assert follower.is_settled
        follower.want("a")
        await follower.settled()
        follower.step_again()
        follower.want(None)
        await follower.settled()
        assert follower.gone
        follower.step_again()
        assert follower.gone
        return follower.steps

    assert asyncio.run(run()) == [(None, "a"), ("a", None)]
