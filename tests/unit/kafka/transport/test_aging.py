"""Values are cached for a limited time."""

from __future__ import annotations

import pytest

from fencepost.kafka.transport import aging
from fencepost.kafka.transport.aging import Aging


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(aging.time, "monotonic", lambda: now[0])
    return now


def test_a_cached_value_is_returned_until_it_is_too_old(clock: list[float]) -> None:
    known: Aging[int] = Aging(1_000)
    known.put({"a": 1})
    clock[0] = 0.5
    known.put({"b": 2})
    assert (known.get("a"), known.get("b"), known.get("c")) == (1, 2, None)
    clock[0] = 1.25
    assert (known.get("a"), known.fresh()) == (None, {"b": 2})
    known.put({"a": 3})
    assert known.fresh() == {"a": 3, "b": 2}


def test_a_forgotten_value_is_not_returned() -> None:
    known: Aging[int] = Aging(60_000)
    known.put({"a": 1, "b": 2})
    known.forget("a")
    known.forget("never put")
    assert known.fresh() == {"b": 2}
