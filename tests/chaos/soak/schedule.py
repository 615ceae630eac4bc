"""What is done to the group, and when: a stream of actions that a seed decides."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.hostile.cases import harmless


class Kind(StrEnum):
    """What can be done."""

    KILL_WORKER = "kill worker"
    FREEZE_WORKER = "freeze worker"
    CUT_WORKER = "cut worker off"
    KILL_BROKER = "kill broker"
    FREEZE_BROKER = "freeze broker"
    RESTART_BROKER = "restart broker"
    SCALE = "change tasks.max"
    PAUSE = "pause"
    STOP = "stop"
    RESTART = "restart"
    RESTART_TASK = "restart task"
    ROLL = "roll all workers"
    MISBEHAVE = "hostile connector"
    KILL_POSTGRES = "kill PostgreSQL"
    CUT_POSTGRES = "cut PostgreSQL off"


PROTOCOLS = ("eager", "compatible", "sessioned")

CUTS = ("drop", "deaf", "mute", "hold", "refuse", "reset", "slow")
"""What becomes of a worker's way to the brokers: lost both ways, answers lost, requests lost, kept back, refused,
connections reset once, each message late."""

_HOW_OFTEN = {
    Kind.KILL_WORKER: 4,
    Kind.FREEZE_WORKER: 3,
    Kind.CUT_WORKER: 5,
    Kind.KILL_BROKER: 2,
    Kind.FREEZE_BROKER: 1,
    Kind.RESTART_BROKER: 1,
    Kind.SCALE: 4,
    Kind.PAUSE: 2,
    Kind.STOP: 2,
    Kind.RESTART: 3,
    Kind.RESTART_TASK: 2,
    Kind.ROLL: 2,
    Kind.MISBEHAVE: 6,
    Kind.KILL_POSTGRES: 3,
    Kind.CUT_POSTGRES: 3,
}

WAYS_TO_MISBEHAVE = tuple(sorted(harmless(Path())))
"""Hostile connectors that run beside the good ones for a while."""

_OF_WORKERS = (Kind.KILL_WORKER, Kind.FREEZE_WORKER, Kind.CUT_WORKER)
_OF_POSTGRES = (Kind.KILL_POSTGRES, Kind.CUT_POSTGRES)
_OF_BROKERS = (Kind.KILL_BROKER, Kind.FREEZE_BROKER, Kind.RESTART_BROKER)


@dataclass(frozen=True)
class Action:
    """`pause` seconds after the action before, do it to the worker, broker or connector number `target`.

    What has an end is ended after `lasts` seconds, while others go on. `detail` is one of CUTS, the protocol that is
    rolled out, the new tasks.max, a task's number, or one of WAYS_TO_MISBEHAVE.
    """

    kind: Kind
    target: int
    pause: float
    lasts: float
    detail: str

    def __str__(self) -> str:
        what = "" if self.kind in (Kind.ROLL, Kind.MISBEHAVE, *_OF_POSTGRES) else f" {self.target}"
        return f"{self.kind}{what}{f': {self.detail}' if self.detail else ''}{f', {self.lasts:.1f} s' if self.lasts else ''}"


@dataclass(frozen=True)
class Size:
    """How many there are of what actions are done to, and the session timeout of a worker in seconds.

    With `postgres` there is one more connector, which captures a bank.
    """

    workers: int
    brokers: int
    connectors: int
    session_s: float
    postgres: bool = False


def actions(seed: int, size: Size) -> Iterator[Action]:
    """Yield the actions of a seed, without end. A broker that stands alone is left alone."""
    chance = random.Random(seed)
    missing = (() if size.brokers > 1 else _OF_BROKERS) + (() if size.postgres else _OF_POSTGRES)
    kinds = [kind for kind in Kind if kind not in missing]
    while True:
        kind = chance.choices(kinds, [_HOW_OFTEN[kind] for kind in kinds])[0]
        yield Action(
            kind=kind,
            target=chance.randrange(_targets(kind, size)),
            pause=chance.uniform(0.5, 6),
            lasts=_duration(kind, size, chance),
            detail=_detail(kind, chance),
        )


def _targets(kind: Kind, size: Size) -> int:
    if kind in _OF_WORKERS:
        return size.workers
    if kind in _OF_POSTGRES:
        return 1
    return size.brokers if kind in _OF_BROKERS else size.connectors + size.postgres


def _duration(kind: Kind, size: Size, chance: random.Random) -> float:
    match kind:
        case Kind.FREEZE_WORKER | Kind.CUT_WORKER:
            # Shorter than the session, so that nobody notices, or long enough for the others to take over.
            return chance.choice((chance.uniform(0.2, 2), size.session_s * chance.uniform(1.2, 2.5)))
        case Kind.KILL_BROKER | Kind.FREEZE_BROKER | Kind.KILL_WORKER:
            return chance.uniform(0.5, 12)
        case Kind.PAUSE | Kind.STOP | Kind.MISBEHAVE | Kind.KILL_POSTGRES | Kind.CUT_POSTGRES:
            return chance.uniform(0.5, 6)
    return 0


def _detail(kind: Kind, chance: random.Random) -> str:
    match kind:
        case Kind.CUT_WORKER:
            return chance.choice(CUTS)
        case Kind.ROLL:
            return chance.choice(PROTOCOLS)
        case Kind.SCALE:
            return str(chance.randint(1, 4))
        case Kind.RESTART_TASK:
            return str(chance.randrange(2))
        case Kind.MISBEHAVE:
            return chance.choice(WAYS_TO_MISBEHAVE)
    return ""
