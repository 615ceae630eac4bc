"""Lets tasks start one after the other, as long as the process has file descriptors for them.

A task that starts opens connections to brokers and to its source. Without descriptors for these, it would take the last
ones away from the tasks that run, from the REST API and from the group.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from fencepost.config import file_descriptors
from fencepost.config.file_descriptors import OutOfFileDescriptorsError
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.task.control import TaskControl
from fencepost.runtime.turns import Turns

_OF_A_START: Final = 2
"""The descriptors that are kept for each task that is starting: most tasks have a single connection in the end."""

_RESERVES: Final = 2
"""A worker's own connections also leave the reserve alone, so tasks leave room for them as well."""


class Admission:
    """Counts the tasks of a process that run, and that are starting. Thread-safe."""

    def __init__(self, turns: Turns | None = None) -> None:
        self._turns = turns or Turns()
        self._lock = threading.Lock()
        self._running = 0
        self._starting = 0

    @contextmanager
    def admitted(self, task: ConnectorTaskId, control: TaskControl) -> Iterator[Callable[[], None]]:
        """Enclose a run of a task, once it is its turn, or `control` has it stop.

        The run calls its argument once it has started. Raises OutOfFileDescriptorsError if there is no room for another
        task.
        """
        turn = self._turns.ask(control.wake)
        try:
            control.wait_for(lambda: turn.given)
            with self._counted(task) as uncount:

                def started() -> None:
                    uncount()
                    turn.end()

                yield started
        finally:
            turn.end()

    @contextmanager
    def _counted(self, task: ConnectorTaskId) -> Iterator[Callable[[], None]]:
        with self._lock:
            needed = file_descriptors.reserved() * _RESERVES + (self._starting + 1) * _OF_A_START
            if file_descriptors.free() < needed:
                raise OutOfFileDescriptorsError(
                    f"Task {task} waits for file descriptors. {self._running} tasks run here, and no more fit"
                )
            self._running += 1
            self._starting += 1
        starting = True

        def started() -> None:
            nonlocal starting
            with self._lock:
                self._starting -= starting
                starting = False

        try:
            yield started
        finally:
            started()
            with self._lock:
                self._running -= 1
