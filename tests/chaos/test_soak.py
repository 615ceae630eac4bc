"""A short soak of a small group; `make chaos` runs the long one."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from tests.chaos.soak.run import soak
from tests.chaos.soak.schedule import Action, Kind, Size, actions

SMALL = Size(workers=2, brokers=1, connectors=4, session_s=6, postgres=True)
LINES, ABORTING, POLLING = range(3)

ACTIONS = [
    # The connectors are at work, and both workers are well.
    Action(Kind.KILL_JVMS, 0, pause=0, lasts=0, detail=""),
    Action(Kind.DROP_SLOT, 0, pause=0, lasts=0, detail=""),
    Action(Kind.SCALE, ABORTING, pause=0, lasts=0, detail="4"),
    Action(Kind.LARGE_TRANSACTION, 0, pause=0, lasts=0, detail=""),
    Action(Kind.MISBEHAVE, 0, pause=0, lasts=4, detail="raises exit in poll"),
    Action(Kind.MISBEHAVE, 0, pause=0, lasts=6, detail="meddles fork, child goes on"),
    Action(Kind.MOVE_CLOCK, 0, pause=0, lasts=10, detail="120"),
    Action(Kind.MOVE_POSTGRES_CLOCK, 0, pause=0, lasts=8, detail="-34560000"),
    Action(Kind.CUT_IN_BLOCK, 0, pause=1, lasts=3, detail="5000"),
    Action(Kind.KILL_WORKER, 0, pause=1, lasts=1, detail=""),
    Action(Kind.KILL_POSTGRES, 0, pause=1, lasts=1, detail=""),
    Action(Kind.CUT_WORKER, 0, pause=1, lasts=1, detail="deaf"),
    Action(Kind.SECOND_INSTANCE, 0, pause=1, lasts=0, detail=""),
    Action(Kind.ADD_COLUMN, 0, pause=0, lasts=0, detail=""),
    Action(Kind.STALL_POSTGRES, 0, pause=0, lasts=5, detail="frozen"),
    Action(Kind.SCALE, POLLING, pause=1, lasts=0, detail="1"),
    Action(Kind.RESTART, LINES, pause=0, lasts=0, detail=""),
]


def test_a_group_under_random_faults_loses_and_duplicates_nothing_and_recovers(tmp_path: Path) -> None:
    outcome = soak(tmp_path, ACTIONS, seconds=120, size=SMALL, tell=print)

    assert outcome.actions == len(ACTIONS)
    assert outcome.sound, outcome
    assert outcome.counts["JVMs killed"] >= 1
    assert "java" in outcome.reports
    assert [times for what, times in outcome.counts.items() if what.startswith("two instances of pg-")] == [1]


def test_a_seed_gives_the_same_actions() -> None:
    size = Size(workers=3, brokers=3, connectors=5, session_s=6, postgres=True)

    first, again, other = (list(islice(actions(seed, size), 500)) for seed in (1, 1, 2))

    assert first == again
    assert first != other
    assert {action.kind for action in first} == set(Kind)
