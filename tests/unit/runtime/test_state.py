from __future__ import annotations

import pytest

from fencepost import IllegalStateError
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.state import TRANSITIONS, State, check_transition


def test_every_state_has_its_transitions():
    assert set(TRANSITIONS) == set(State)


def test_failed_and_stopped_have_no_next_state():
    assert TRANSITIONS[State.FAILED] == TRANSITIONS[State.STOPPED] == frozenset()


def test_every_state_can_be_reached_from_unassigned():
    reached = {State.UNASSIGNED}
    while more := {after for state in reached for after in TRANSITIONS[state]} - reached:
        reached |= more
    assert reached == set(State)


def test_a_wrong_transition_names_the_task_and_both_states():
    check_transition("Task c-0", State.RUNNING, State.PAUSED)
    with pytest.raises(IllegalStateError, match="Task c-0 is FAILED and cannot become RUNNING"):
        check_transition("Task c-0", State.FAILED, State.RUNNING)


def test_the_transactional_id_has_the_form_of_kip_618():
    assert ConnectorTaskId("c", 3).transactional_id("connect-cluster") == "connect-cluster-c-3"
