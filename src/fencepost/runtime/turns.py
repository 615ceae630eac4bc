"""Turns limit how many starts and stops of one kind are in progress at once.

    ask ──> waiting ──a turn ends, or hangs──> held ──end──> over
               └───────────────end────────────────────────────^

Starts and stops compete for one interpreter, and the group's heartbeat with them. Slow ones keep their turns: a worker
that is short of CPU must not begin more of them for that. But connectors' code may never return. So as long as turns
end, however slowly, at most `at_once` are in progress. Once none has ended for `patience_s` seconds, all that are held
count as hanging, and as many are given out again. They hold up the others for a while, but not for ever. The more hang, the
longer that takes, so that turns that are only slow, all of them, lead to few more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

AT_ONCE: Final = 8
"""More concurrent starts are not faster, because they mostly compute, and delay the group's heartbeat."""

PATIENCE_SECONDS: Final = 2.0


class Turn:
    """One start or stop, which waits for its turn, or has it. Thread-safe."""

    def __init__(self, turns: Turns, on_given: Callable[[], None]) -> None:
        self._turns = turns
        self.on_given: Final = on_given
        self.given = False
        """Whether it is this start's or stop's turn."""

    def end(self) -> None:
        """End the turn, or stop waiting for it. Does nothing the second time."""
        self._turns.end(self)


class Turns:
    """Gives out turns in the order of the requests. Thread-safe.

    While turns are waited for, a separate thread checks whether the active ones hang: if each waiting thread did so,
    they would take the CPU from the active ones.
    """

    def __init__(self, at_once: int = AT_ONCE, patience_s: float = PATIENCE_SECONDS) -> None:
        self._at_once = at_once
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._waiting: dict[Turn, None] = {}
        self._held: set[Turn] = set()
        # Turns that were held, and may only be slow.
        self._hanging: set[Turn] = set()
        self._moved_at = 0.0
        self._watching = False

    @property
    def patience_s(self) -> float:
        """After how many seconds without an end of a turn those that are held count as hanging."""
        return self._patience_s * (1 + len(self._hanging) / self._at_once)

    def ask(self, on_given: Callable[[], None]) -> Turn:
        """Request a turn, which may begin at once. `on_given` is called on any thread, and must not block."""
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
