"""Internals of kafka-python's coordinator that group_coordinator relies on."""

from __future__ import annotations

import inspect
import threading
import time

import pytest
from kafka.coordinator.base import BaseCoordinator
from kafka.coordinator.heartbeat import Heartbeat

from fencepost.kafka.group import coordinator
from fencepost.kafka.group.coordinator import ConnectCoordinator, MemberHeartbeat
from fencepost.kafka.precedence import Precedence
from tests.support.processes import wait_for


def methods_of(cls: type) -> dict[str, object]:
    return {name: member for name, member in vars(cls).items() if inspect.isfunction(member)}


@pytest.mark.parametrize(
    "name",
    [
        "protocol_type",
        "group_protocols",
        "_on_join_prepare_async",
        "_perform_assignment",
        "_on_join_complete_async",
        "_do_join_and_sync_async",
        "request_rejoin",
        "reset_generation",
    ],
)
def test_kafka_python_has_the_overridden_names_with_equal_signatures(name: str):
    ours, theirs = methods_of(ConnectCoordinator)[name], methods_of(BaseCoordinator)[name]
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)


@pytest.mark.parametrize(
    "name",
    [
        "ensure_active_group_async",
        "maybe_leave_group_async",
        "poll_heartbeat",
        "need_rejoin",
        "coordinator_dead",
        "_close_heartbeat",
    ],
)
def test_kafka_python_has_the_names_that_are_called(name: str):
    assert name in methods_of(BaseCoordinator)


def test_a_heartbeat_knows_when_it_was_sent():
    heartbeat = Heartbeat()
    assert heartbeat.last_send == float("-inf")
    heartbeat.sent_heartbeat()
    assert heartbeat.last_send > 0


@pytest.mark.parametrize(
    ("sent", "wait"),
    [
        pytest.param(None, 0.1, id="the first one comes early"),
        pytest.param(0.1, 0.1, id="the second soon after"),
        pytest.param(0.8, 0.8, id="then the pauses double"),
        pytest.param(10.0, 3.0, id="until they are as long as the interval"),
    ],
)
def test_heartbeats_come_early_after_a_generation_began(
    sent: float | None, wait: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(time, "monotonic", lambda: 1_000.0)
    heartbeat = MemberHeartbeat(heartbeat_interval_ms=3_000)
    if sent is not None:
        heartbeat.last_reset, heartbeat.last_send = 1_000.0 - sent, 1_000.0
    assert heartbeat.time_to_next_heartbeat() == pytest.approx(wait)


def test_the_interval_bounds_the_early_heartbeats():
    heartbeat = MemberHeartbeat(heartbeat_interval_ms=20)
    assert heartbeat.time_to_next_heartbeat() <= 0.02


@pytest.mark.parametrize("event", ["received_heartbeat", "reset_timeouts"])
def test_other_threads_wait_for_the_next_heartbeat_until_it_fails(event: str, monkeypatch: pytest.MonkeyPatch):
    precedence, passed = Precedence(3600), threading.Event()
    monkeypatch.setattr(coordinator, "HEARTBEAT", precedence)
    heartbeat = MemberHeartbeat(heartbeat_interval_ms=20)
    getattr(heartbeat, event)()
    wait_for(lambda: heartbeat.time_to_next_heartbeat() == 0)

    def give_way() -> None:
        precedence.give_way()
        passed.set()

    thread = threading.Thread(target=give_way, daemon=True)
    thread.start()
    assert not passed.wait(0.1)
    heartbeat.fail_heartbeat()
    assert passed.wait(20)
    thread.join()
