"""Lets tasks start one after the other, as long as the process has file descriptors for them.

A task that starts opens connections to brokers and to its source. If few descriptors are free, a starting task would
leave none to running tasks, to the REST API and to the group membership.
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
"""The number of descriptors reserved for each task that is starting. Once started, most tasks need only one."""

_RESERVES: Final = 2
"""Tasks leave this multiple of the worker's reserve free.

The reserve itself is not for the worker's own connections, so tasks leave the same number of descriptors for these.
"""


class Admission:
    """Counts the running and the starting tasks of a process. Thread-safe."""

    def __init__(self, turns: Turns | None = None) -> None:
        self._turns = turns or Turns()
        self._lock = threading.Lock()
        self._running = 0
        self._starting = 0

    @contextmanager
    def admitted(self, task: ConnectorTaskId, control: TaskControl) -> Iterator[Callable[[], None]]:
        """Wait until it is the task's turn, or `control` asks the task to stop. Then let the body run the task.

        The body calls the yielded function when the task has started. Raises OutOfFileDescriptorsError if there are too
        few descriptors for another task.
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
