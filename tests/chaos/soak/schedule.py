"""The faults and requests of a soak, and their times: a stream of actions determined by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.hostile.cases import harmless


class Kind(StrEnum):
    """The kinds of actions."""

    KILL_WORKER = "kill worker"
    FREEZE_WORKER = "freeze worker"
    CUT_WORKER = "cut worker off"
    SECOND_INSTANCE = "second instance of a task"
    MOVE_CLOCK = "move clock of worker"
    KILL_JVMS = "kill the JVMs of Java connectors"
    KILL_BROKER = "kill broker"
    FREEZE_BROKER = "freeze broker"
    RESTART_BROKER = "restart broker"
    KILL_KAFKA = "kill all brokers"
    SCALE = "change tasks.max"
    PAUSE = "pause"
    STOP = "stop"
    RESTART = "restart"
    RESTART_TASK = "restart task"
    ROLL = "roll all workers"
    MISBEHAVE = "hostile connector"
    KILL_POSTGRES = "kill PostgreSQL"
    CUT_POSTGRES = "cut PostgreSQL off"
    CUT_IN_BLOCK = "cut an answer of PostgreSQL after bytes"
    END_SESSIONS = "end PostgreSQL's sessions"
    STALL_POSTGRES = "stall PostgreSQL's streams"
    FILL_WAL_DISK = "fill the disk of PostgreSQL's log"
    MOVE_POSTGRES_CLOCK = "move PostgreSQL's clock"
    DROP_SLOT = "drop the audit's slot"
    LARGE_TRANSACTION = "large transaction"
    ADD_COLUMN = "add columns"


PROTOCOLS = ("eager", "compatible", "sessioned")

CUTS = ("drop", "deaf", "mute", "hold", "refuse", "reset", "slow")
"""Faults of a worker's links to the brokers.

drop: both directions are lost; deaf: answers are lost; mute: requests are lost; hold: data are held back; refuse:
connections are refused; reset: connections are reset once; slow: each message is late.
"""

_HOW_OFTEN = {
    Kind.KILL_WORKER: 4,
    Kind.FREEZE_WORKER: 3,
    Kind.CUT_WORKER: 5,
    Kind.SECOND_INSTANCE: 5,
    Kind.MOVE_CLOCK: 4,
    Kind.KILL_JVMS: 4,
    Kind.KILL_BROKER: 2,
    Kind.FREEZE_BROKER: 1,
    Kind.RESTART_BROKER: 1,
    Kind.KILL_KAFKA: 1,
    Kind.SCALE: 4,
    Kind.PAUSE: 2,
    Kind.STOP: 2,
    Kind.RESTART: 3,
    Kind.RESTART_TASK: 2,
    Kind.ROLL: 2,
    Kind.MISBEHAVE: 6,
    Kind.KILL_POSTGRES: 4,
    Kind.CUT_POSTGRES: 2,
    Kind.CUT_IN_BLOCK: 4,
    Kind.END_SESSIONS: 2,
    Kind.STALL_POSTGRES: 3,
    Kind.FILL_WAL_DISK: 1,
    Kind.MOVE_POSTGRES_CLOCK: 3,
    Kind.DROP_SLOT: 2,
    Kind.LARGE_TRANSACTION: 2,
    Kind.ADD_COLUMN: 2,
}

WAYS_TO_MISBEHAVE = tuple(sorted(harmless(Path())))
"""Hostile connectors that run next to the others for a while."""

LOADS = (Kind.DROP_SLOT, Kind.LARGE_TRANSACTION, Kind.ADD_COLUMN)
"""Long actions that run next to all others, and are not undone."""

OF_POSTGRES = (
    Kind.KILL_POSTGRES, Kind.CUT_POSTGRES, Kind.CUT_IN_BLOCK, Kind.END_SESSIONS, Kind.STALL_POSTGRES,
    Kind.FILL_WAL_DISK, Kind.MOVE_POSTGRES_CLOCK, *LOADS,
)  # fmt: skip
"""The actions on PostgreSQL."""

OF_TABLES = ("PostgresSource", "JdbcSource")
"""The database connectors that get a second instance of a task; the action's target is an index in this list."""

OF_BROKERS = (Kind.KILL_BROKER, Kind.FREEZE_BROKER, Kind.RESTART_BROKER, Kind.KILL_KAFKA)
"""The actions on the brokers."""

_WITHOUT_TARGET = (Kind.ROLL, Kind.MISBEHAVE, Kind.KILL_KAFKA, Kind.KILL_JVMS, *OF_POSTGRES)

STALLS = ("silent", "frozen")
"""silent: the client of a replication stream sends nothing; frozen: the server's WAL sender is suspended."""

WORKER_CLOCKS = ("-120", "-20", "20", "120")
"""Seconds that a worker's clock is ahead. Any two clocks differ by less than the lifetime of a signature, 300 s."""

POSTGRES_CLOCKS = ("-60", "-86400", "-34560000")
"""Never ahead of the machine's clock, see `clocked_programs`. Setting it back is a leap forward anyway."""

_LONGEST_BLOCK = 20_000
_DETAILS = {
    Kind.CUT_WORKER: CUTS,
    Kind.ROLL: PROTOCOLS,
    Kind.SCALE: ("1", "2", "3", "4"),
    Kind.RESTART_TASK: ("0", "1"),
    Kind.MISBEHAVE: WAYS_TO_MISBEHAVE,
    Kind.STALL_POSTGRES: STALLS,
    Kind.MOVE_CLOCK: WORKER_CLOCKS,
    Kind.MOVE_POSTGRES_CLOCK: POSTGRES_CLOCKS,
}
_LASTS = {
    Kind.KILL_WORKER: (0.5, 12),
    Kind.KILL_BROKER: (0.5, 12),
    Kind.FREEZE_BROKER: (0.5, 12),
    Kind.KILL_KAFKA: (30, 60),
    Kind.PAUSE: (0.5, 6),
    Kind.STOP: (0.5, 6),
    Kind.MISBEHAVE: (0.5, 6),
    Kind.KILL_POSTGRES: (0.5, 6),
    Kind.CUT_POSTGRES: (0.5, 6),
    Kind.CUT_IN_BLOCK: (2, 10),
    Kind.FILL_WAL_DISK: (0.5, 6),
    Kind.MOVE_CLOCK: (2, 20),
    Kind.MOVE_POSTGRES_CLOCK: (2, 20),
}
HARMS_OF_WORKERS = (Kind.KILL_WORKER, Kind.FREEZE_WORKER, Kind.CUT_WORKER)
"""The faults of a worker; it has one of them at a time."""


@dataclass(frozen=True)
class Action:
    """`pause` seconds after the previous action, do this one to the worker, broker or connector number `target`.

    An action with an end is undone after `lasts` seconds, while others go on. `detail` is one of CUTS or STALLS, the
    protocol that is rolled out, the new tasks.max, a task's number, one of WAYS_TO_MISBEHAVE, a number of bytes, or of
    seconds that a clock is ahead. A second instance lasts until there are two, see `instances`.
    """

    kind: Kind
    target: int
    pause: float
    lasts: float
    detail: str

    def __str__(self) -> str:
        what = "" if self.kind in _WITHOUT_TARGET else f" {self.target}"
        return f"{self.kind}{what}{f': {self.detail}' if self.detail else ''}{f', {self.lasts:.1f} s' if self.lasts else ''}"


@dataclass(frozen=True)
class Size:
    """The number of workers and brokers, and so on, for the actions, and a worker's session timeout in seconds.

    With `postgres` there are two more connectors, of a database's tables, and one whose slot is dropped.
    """

    workers: int
    brokers: int
    connectors: int
    session_s: float
    postgres: bool = False


def actions(seed: int, size: Size) -> Iterator[Action]:
    """Yield the actions of a seed, without end. A single broker gets no faults."""
    chance = random.Random(seed)
    missing = (() if size.brokers > 1 else OF_BROKERS) + (() if size.postgres else (*OF_POSTGRES, Kind.SECOND_INSTANCE))
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
    if kind in HARMS_OF_WORKERS or kind is Kind.MOVE_CLOCK:
        return size.workers
    if kind is Kind.SECOND_INSTANCE:
        return len(OF_TABLES)
    if kind in OF_POSTGRES or kind is Kind.KILL_JVMS:
        return 1
    return size.brokers if kind in OF_BROKERS else size.connectors + len(OF_TABLES) * size.postgres


def _duration(kind: Kind, size: Size, chance: random.Random) -> float:
    match kind:
        case Kind.FREEZE_WORKER | Kind.CUT_WORKER:
            # Shorter than the session timeout, so that nobody notices, or long enough for other workers to take over.
            return chance.choice((chance.uniform(0.2, 2), size.session_s * chance.uniform(1.2, 2.5)))
        case Kind.STALL_POSTGRES:
            # Shorter or longer than wal_sender_timeout.
            return chance.choice((chance.uniform(0.2, 1), chance.uniform(4.5, 8)))
    return chance.uniform(*_LASTS[kind]) if kind in _LASTS else 0


def _detail(kind: Kind, chance: random.Random) -> str:
    if kind is Kind.CUT_IN_BLOCK:
        return str(chance.randrange(1, _LONGEST_BLOCK))
    return chance.choice(_DETAILS[kind]) if kind in _DETAILS else ""
