from __future__ import annotations

import threading
import time

from fencepost.kafka.precedence import Precedence


def test_threads_wait_for_due_heartbeats():
    precedence, passed = Precedence(3600), threading.Event()

    def give_way() -> None:
        precedence.give_way()
        passed.set()

    precedence.announce(time.monotonic())
    thread = threading.Thread(target=give_way)
    thread.start()
    assert not passed.wait(0.1)
    precedence.announce(time.monotonic() + 3600)
    assert passed.wait(60)
    thread.join()


def test_threads_do_not_wait_for_heartbeats_that_are_not_due():
    precedence, passed = Precedence(3600), 0
    for due in (None, time.monotonic() + 3600, None):
        precedence.announce(due)
        precedence.give_way()
        passed += 1
    assert passed == 3


def test_threads_wait_for_a_limited_time_once():
    passed = 0
    for limit_s, due in ((0.05, time.monotonic()), (3600, time.monotonic() - 3601)):
        precedence = Precedence(limit_s)
        precedence.announce(due)
        precedence.give_way()
        passed += 1
    assert passed == 2
