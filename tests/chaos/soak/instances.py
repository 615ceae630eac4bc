"""Two instances of a task at once: a worker is suspended until the group has moved its task, and is then resumed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.chaos.soak.cluster import RUNS, Slot
from tests.support.processes import wait_for

# Long, because the group has faults meanwhile.
_PATIENCE_SECONDS = 300.0
_FENCED = "newer instance"


def holder(slots: Sequence[Slot], task: str) -> Slot | None:
    """The only worker whose log says that it runs the task. The status topic may still name a worker that is gone.

    Also None if several logs say so: then it is unknown which instance is the earlier one.
    """
    found = [slot for slot in slots if slot.worker.process.running and slot.told(task) == RUNS]
    return found[0] if len(found) == 1 else None


class SecondInstance:
    """A task whose worker is suspended from the constructor on. The worker learns of nothing before it is resumed."""

    def __init__(self, task: str, former: Slot, others: Sequence[Slot]) -> None:
        self.task = task
        self.former = former
        self._go_on = former.freeze()
        self._worker = former.worker
        self._marks = {slot.number: slot.log_size for slot in (former, *others)}
        self._others = others
        self._deadline = time.monotonic() + _PATIENCE_SECONDS
        self.twice = False
        """Whether the successor ran when the former instance was resumed."""

    def successor(self) -> Slot | None:
        """The other worker that has started the task since then."""
        slots = [slot for slot in self._others if slot.worker.process.running]
        return next((slot for slot in slots if slot.told(self.task, self._marks[slot.number]) == RUNS), None)

    @property
    def overdue(self) -> bool:
        """Whether the group has had enough time to move the task to another worker."""
        return time.monotonic() > self._deadline

    def go_on(self) -> None:
        """Resume the suspended worker."""
        self.twice = self.former.told(self.task) == RUNS and self.successor() is not None
        self._go_on()

    def wait_until_noticed(self) -> bool:
        """Wait until the earlier instance has ended; return whether Kafka fenced it before it knew of its revocation."""
        start = self._marks[self.former.number]

        def ended() -> bool:
            gone = self.former.worker is not self._worker or not self._worker.process.running
            return gone or self.former.told(self.task, start) not in ("", RUNS)

        wait_for(ended, _PATIENCE_SECONDS, what=f"the former instance of task {self.task} ends")
        return any(_FENCED in line and self.task in line for line in self.former.logged(start).splitlines())
