from __future__ import annotations

from contextlib import ExitStack

import pytest

from fencepost.config.file_descriptors import OutOfFileDescriptorsError
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.task.admission import Admission
from tests.support.descriptors import ROOM, few_descriptors, take_descriptors

few = pytest.fixture(few_descriptors)
FIRST, NEXT = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)


def test_no_more_tasks_are_admitted_than_descriptors_are_left_for(few: int):
    admission = Admission()
    with ExitStack() as stack:
        stack.enter_context(admission.admitted(FIRST))()
        take_descriptors(stack, ROOM)
        with pytest.raises(OutOfFileDescriptorsError, match=rf"Task c-1 waits .* 1 tasks run here.* {few} files"):
            stack.enter_context(admission.admitted(NEXT))
    with admission.admitted(NEXT):
        pass


@pytest.mark.usefixtures("few")
def test_tasks_that_are_starting_have_descriptors_kept_for_them():
    admission = Admission()

    def admitted(stack: ExitStack) -> int:
        for number in range(ROOM):
            try:
                stack.enter_context(admission.admitted(ConnectorTaskId("c", number)))
            except OutOfFileDescriptorsError:
                return number
        return ROOM

    with ExitStack() as stack:
        assert 0 < admitted(stack) < ROOM / 2


@pytest.mark.usefixtures("few")
def test_a_task_that_has_started_counts_with_what_it_has_open():
    admission = Admission()
    with ExitStack() as stack:
        for number in range(ROOM):
            stack.enter_context(admission.admitted(ConnectorTaskId("c", number)))()
