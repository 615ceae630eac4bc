from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from fencepost.config.file_descriptors import OutOfFileDescriptorsError
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.task.admission import Admission
from fencepost.runtime.task.control import TaskControl
from fencepost.runtime.turns import Turns
from tests.support.descriptors import ROOM, few_descriptors, take_descriptors

few = pytest.fixture(few_descriptors)
FIRST, NEXT = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)


def test_no_more_tasks_are_admitted_than_descriptors_are_left_for(few: int):
    admission = Admission()
    with ExitStack() as stack:
        stack.enter_context(admission.admitted(FIRST, TaskControl()))()
        take_descriptors(stack, ROOM)
        with pytest.raises(OutOfFileDescriptorsError, match=rf"Task c-1 waits .* 1 tasks run here.* {few} files"):
            stack.enter_context(admission.admitted(NEXT, TaskControl()))
    with admission.admitted(NEXT, TaskControl()):
        pass


@pytest.mark.usefixtures("few")
def test_tasks_that_are_starting_have_descriptors_kept_for_them():
    admission = Admission(Turns(ROOM))

    def admitted(stack: ExitStack) -> int:
        for number in range(ROOM):
            try:
                stack.enter_context(admission.admitted(ConnectorTaskId("c", number), TaskControl()))
            except OutOfFileDescriptorsError:
                return number
        return ROOM

    with ExitStack() as stack:
        assert 0 < admitted(stack) < ROOM / 2


@pytest.mark.usefixtures("few")
def test_a_started_task_counts_with_its_open_descriptors():
    admission, started = Admission(), 0
    with ExitStack() as stack:
        for number in range(ROOM):
            stack.enter_context(admission.admitted(ConnectorTaskId("c", number), TaskControl()))()
            started += 1
    assert started == ROOM


def test_a_task_waits_until_another_one_has_started():
    admission = Admission(Turns(1, 3600))
    began, waiting = threading.Event(), TaskControl()

    def start() -> None:
        with admission.admitted(NEXT, waiting):
            began.set()

    with admission.admitted(FIRST, TaskControl()) as started:
        thread = threading.Thread(target=start)
        thread.start()
        assert not began.wait(0.1)
        started()
        thread.join(60)
        assert began.is_set()


def test_a_task_that_is_to_stop_waits_for_no_turn():
    admission = Admission(Turns(1, 3600))
    control = TaskControl()
    with admission.admitted(FIRST, TaskControl()):
        control.stop()
        with admission.admitted(NEXT, control) as started:
            assert callable(started), "it returns although the other task still starts"
