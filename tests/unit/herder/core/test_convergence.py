"""How connectors and tasks follow their plans."""

from __future__ import annotations

import asyncio

from fencepost.herder.core.convergence import Converging


class Follower(Converging[str]):
    """Remembers its steps, which take until `may_step` is set."""

    def __init__(self) -> None:
        super().__init__("follower")
        self.steps: list[tuple[str | None, str | None]] = []
        self.may_step = asyncio.Event()
        self.may_step.set()

    async def _step(self, before: str | None, wanted: str | None) -> str | None:
        await self.may_step.wait()
        self.steps.append((before, wanted))
        # As a task does: another plan is followed by way of a stop.
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

    # The first step had begun when the others were wanted.
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
