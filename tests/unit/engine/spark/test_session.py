"""How a worker gives up a Spark session. What it does to the sessions of programs is tested with Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from fencepost.engine.errors import SparkStartError
from fencepost.engine.spark import session
from fencepost.engine.spark.session import LazySession


def test_a_lost_session_is_discarded_while_no_other_starts_or_ends(monkeypatch: pytest.MonkeyPatch):
    lazy, held = LazySession({}), []
    refusal = SparkStartError("another one does not start")

    def refuse() -> None:
        raise refusal

    monkeypatch.setattr(lazy, "_session", object())
    monkeypatch.setattr(lazy, "_start", refuse)
    monkeypatch.setattr(session, "_is_stopped", lambda _: True)
    monkeypatch.setattr(session, "_discard", lambda _: held.append(session._LAUNCH.locked()))
    with pytest.raises(SparkStartError):
        lazy.get()
    assert held == [True]


class Session:
    """A session that was stopped, and whose JVM does not answer any more."""

    def __init__(self) -> None:
        self.sparkContext = SimpleNamespace(_accumulatorServer=None)

    def stop(self) -> None:
        raise ConnectionRefusedError


@pytest.mark.parametrize("active", ["none", "its own", "another"])
def test_only_the_active_session_takes_its_jvm_with_it(monkeypatch: pytest.MonkeyPatch, active: str):
    stopped, ended = Session(), []
    gateway: Any = SimpleNamespace(proc=None, shutdown=lambda: ended.append(True))
    contexts = {"none": None, "its own": stopped.sparkContext, "another": object()}
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_active_spark_context", contexts[active])
    session._discard(stopped)  # type: ignore[arg-type]
    assert bool(ended) is (active == "its own")
    assert (SparkContext._gateway is gateway) is not (active == "its own")


@pytest.mark.parametrize("whose", ["program", "worker"])
def test_a_start_that_fails_ends_only_a_jvm_of_the_worker(monkeypatch: pytest.MonkeyPatch, whose: str):
    """In its own JVM, which may be what is broken, another start would fail again and again."""
    gateway: Any = SimpleNamespace(proc=None, shutdown=lambda: None)
    monkeypatch.setattr(SparkContext, "_gateway", gateway if whose == "program" else None)

    def started() -> Session:
        SparkContext._gateway = gateway
        return Session()

    def failed() -> Session:
        raise RuntimeError("no room")

    def start(lazy: LazySession, outcome: Callable[[], Session]) -> None:
        builder = SimpleNamespace(config=lambda **_: SimpleNamespace(getOrCreate=outcome))
        monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=builder))
        lazy._create()

    monkeypatch.setattr(session, "find_java", lambda: None)
    monkeypatch.setattr(session, "_environment", lambda *_: nullcontext())
    monkeypatch.setattr(session, "atexit", SimpleNamespace(register=lambda *_: None, unregister=lambda *_: None))
    lazy = LazySession({})
    start(lazy, started)
    # The session was stopped by Spark, and its JVM runs.
    with pytest.raises(SparkStartError, match="no room"):
        start(lazy, failed)
    assert (SparkContext._gateway is gateway) == (whose == "program")


def test_the_session_of_a_program_whose_jvm_died_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    ended: list[str] = []
    stdin = SimpleNamespace(close=lambda: ended.append("stdin"))
    process = SimpleNamespace(poll=lambda: -9, wait=lambda: None, stdin=stdin)
    gateway = SimpleNamespace(proc=process, shutdown=lambda: ended.append("gateway"))
    # An attribute of the JVM, such as its configuration, would be asked of it.
    dead, new = SimpleNamespace(_accumulatorServer=None), Session()
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_active_spark_context", dead)
    lazy = LazySession({})
    monkeypatch.setattr(lazy, "_create", lambda: new)
    monkeypatch.setattr(session, "_check_foreign", lambda context: context._accumulatorServer)
    assert lazy.get() is new  # type: ignore[comparison-overlap]
    assert ended == ["gateway", "stdin"]
    assert (SparkContext._active_spark_context, SparkContext._gateway) == (None, None)
    assert "The JVM of this program's Spark session has died" in caplog.text
