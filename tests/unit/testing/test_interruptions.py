from __future__ import annotations

import signal
import threading

import pytest

from fencepost.testing.conformance.interruptions import interruptions_held


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_held_interruption_comes_at_the_end_of_the_block(number: signal.Signals) -> None:
    done: list[str] = []

    def work() -> None:
        with interruptions_held():
            signal.raise_signal(number)
            done.append("all")

    former = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert done == ["all"]
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, former)


def test_an_ignored_signal_stays_ignored() -> None:
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptions_held():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, former)


def test_another_thread_has_nothing_to_hold() -> None:
    def hold() -> None:
        with interruptions_held():
            held.append(signal.getsignal(signal.SIGINT))

    held: list[object] = []
    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()

    assert held == [signal.getsignal(signal.SIGINT)]
