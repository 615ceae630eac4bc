"""Turns limit how many starts and stops of one kind are in progress at the same time.

    ask ──> waiting ──a turn ends, or hangs──> held ──end──> over
               └───────────────end────────────────────────────^

Starts and stops compete for one interpreter, also with the group's heartbeat. A worker that is short of CPU must not
begin more of them. So as long as turns end, however slowly, at most `at_once` are in progress. But a connector's code
may never return. If no turn has ended for `patience_s` seconds, all held turns count as hanging, and the same number of
new turns is given out. So hanging turns delay the other turns for a while, but not for ever. `patience_s` grows with
the number of hanging turns, so that turns that are only slow cause few additional turns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

AT_ONCE: Final = 8
"""The number of starts and stops in progress at once.

More would not be faster, because they mostly compute. They would delay the group's heartbeat.
"""

PATIENCE_SECONDS: Final = 2.0


class Turn:
    """One start or stop. It waits for its turn, or has it. Thread-safe."""

    def __init__(self, turns: Turns, on_given: Callable[[], None]) -> None:
        self._turns = turns
        self.on_given: Final = on_given
        self.given = False
        """Whether this start or stop has its turn."""

    def end(self) -> None:
        """End the turn, or stop waiting for it. A second call does nothing."""
        self._turns.end(self)


class Turns:
    """Gives out turns in the order of the requests. Thread-safe.

    While somebody waits for a turn, a single separate thread checks whether the active turns hang. If each waiting
    thread did so, they would take the CPU from the active ones.
    """

    def __init__(self, at_once: int = AT_ONCE, patience_s: float = PATIENCE_SECONDS) -> None:
        self._at_once = at_once
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._waiting: dict[Turn, None] = {}
        self._held: set[Turn] = set()
        # Held turns that count as hanging. They may only be slow.
        self._hanging: set[Turn] = set()
        self._moved_at = 0.0
        self._watching = False

    @property
    def patience_s(self) -> float:
        """The seconds after which held turns count as hanging if no turn has ended meanwhile."""
        return self._patience_s * (1 + len(self._hanging) / self._at_once)

    def ask(self, on_given: Callable[[], None]) -> Turn:
        """Request a turn, which may begin at once. `on_given` may be called on any thread, and must not block."""
        turn = Turn(self, on_given)
        with self._changed:
            self._waiting[turn] = None
        self._give()
        with self._changed:
            watch = not turn.given and not self._watching
            self._watching |= watch
        if watch:
            threading.Thread(target=self._watch, name="turns", daemon=True).start()
        return turn

    def end(self, turn: Turn) -> None:
        """End a turn."""
        with self._changed:
            self._waiting.pop(turn, None)
            if turn in self._held or turn in self._hanging:
                self._held.discard(turn)
                self._hanging.discard(turn)
                self._moved_at = time.monotonic()
        self._give()

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._waiting, self._left_s())
                if not self._waiting:
                    self._watching = False
                    return
                if self._left_s() <= 0:
                    self._hanging |= self._held
                    self._held.clear()
            self._give()

    def _left_s(self) -> float:
        return max(0.0, self._moved_at + self.patience_s - time.monotonic())

    def _give(self) -> None:
        given: list[Turn] = []
        with self._changed:
            while self._waiting and len(self._held) < self._at_once:
                if not self._held:
                    self._moved_at = time.monotonic()
                turn = next(iter(self._waiting))
                del self._waiting[turn]
                self._held.add(turn)
                turn.given = True
                given.append(turn)
            if not self._waiting:
                self._changed.notify_all()
        for turn in given:
            turn.on_given()
