"""Two instances of a task at once: a worker stands still until the group has given its task to another, and then goes on."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.chaos.soak.cluster import RUNS, Slot
from tests.support.processes import wait_for

# A group that is shaken meanwhile.
_PATIENCE_SECONDS = 300.0
_FENCED = "newer instance"


def holder(slots: Sequence[Slot], task: str) -> Slot | None:
    """The one worker whose process runs the task, as it says itself: statuses may be those of a worker that is gone.

    None as well while several say so: it cannot be told which of them is the former one.
    """
    found = [slot for slot in slots if slot.worker.process.running and slot.told(task) == RUNS]
    return found[0] if len(found) == 1 else None


class SecondInstance:
    """A task whose worker stands still from the beginning of this on. Nothing tells that worker before it goes on."""

    def __init__(self, task: str, former: Slot, others: Sequence[Slot]) -> None:
        self.task = task
        self.former = former
        self._go_on = former.freeze()
        self._worker = former.worker
        self._marks = {slot.number: slot.log_size for slot in (former, *others)}
        self._others = others
        self._deadline = time.monotonic() + _PATIENCE_SECONDS
        self.twice = False
        """Whether both instances ran when the former went on."""

    def successor(self) -> Slot | None:
        """The other worker whose process runs the task since."""
        slots = [slot for slot in self._others if slot.worker.process.running]
        return next((slot for slot in slots if slot.told(self.task, self._marks[slot.number]) == RUNS), None)

    @property
    def overdue(self) -> bool:
        """Whether the group has had its time to give the task to another worker."""
        return time.monotonic() > self._deadline

    def go_on(self) -> None:
        """Let the worker go on that stood still."""
        self.twice = self.former.told(self.task) == RUNS and self.successor() is not None
        self._go_on()

    def wait_until_noticed(self) -> bool:
        """Wait until the former instance has ended; return whether a write of it was refused before it heard of that."""
        start = self._marks[self.former.number]

        def ended() -> bool:
            gone = self.former.worker is not self._worker or not self._worker.process.running
            return gone or self.former.told(self.task, start) not in ("", RUNS)

        wait_for(ended, _PATIENCE_SECONDS, what=f"the former instance of task {self.task} ends")
        return any(_FENCED in line and self.task in line for line in self.former.logged(start).splitlines())
