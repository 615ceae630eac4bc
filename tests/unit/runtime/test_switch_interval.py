from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from fencepost.runtime.switch_interval import adapt_switch_interval

PYTHONS_OWN_S = 0.005
WAKE_UPS_PER_SECOND = 50_000


@pytest.fixture(autouse=True)
def interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_few_threads_take_the_interpreter_as_often_as_python_lets_them():
    adapt_switch_interval()
    assert sys.getswitchinterval() == pytest.approx(PYTHONS_OWN_S)


def test_many_waiting_threads_do_not_wake_up_more_often_together():
    done = threading.Event()
    threads = [threading.Thread(target=done.wait, daemon=True) for _ in range(500)]
    try:
        for thread in threads:
            thread.start()
        adapt_switch_interval()
        # Threads of other tests may end at the same time.
        assert 500 / sys.getswitchinterval() == pytest.approx(WAKE_UPS_PER_SECOND, rel=0.2)
    finally:
        done.set()
    for thread in threads:
        thread.join()
    adapt_switch_interval()
    assert sys.getswitchinterval() == pytest.approx(PYTHONS_OWN_S)
