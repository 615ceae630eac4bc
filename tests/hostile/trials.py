"""Runs hostile connectors next to good ones, and finds broken promises."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile.programs import unique, wait_for, wait_for_some
from tests.hostile.site import Site, faults
from tests.hostile.workers import Answer

_AT_ONCE = 6
_SECONDS = 300.0
_GOOD_ENOUGH = 10


@dataclass(frozen=True)
class Trial:
    """A hostile connector that was created: its name, which is also its topic's, and the answer to the request."""

    site: Site
    name: str
    answer: Answer

    @property
    def told(self) -> str:
        """All messages about the connector: the answer to its creation and the traces in its status."""
        if self.answer.status >= 400:
            return self.answer.message
        status = self.site.worker.status(self.name)
        return "\n".join(part.get("trace") or "" for part in (status["connector"], *status["tasks"])).strip()

    @property
    def states(self) -> list[str]:
        return self.site.worker.states(self.name)

    def delivered(self) -> int:
        """The number of the last record of the first task whose offset is committed."""
        return max(self.site.committed(self.name).values(), default=0)


Promise = Callable[[Trial], None]
"""Raises AssertionError if the promise is broken."""


@dataclass(frozen=True)
class Case:
    """The configuration of a hostile connector, and the promise about it."""

    config: Mapping[str, str]
    promise: Promise
    topic: Mapping[str, str] = field(default_factory=dict)


def says(*texts: str) -> Promise:
    """The connector is refused, or it or a task is FAILED, with a message that has these texts (in any case)."""

    def promise(trial: Trial) -> None:
        def failed() -> bool:
            return trial.answer.status >= 400 or "FAILED" in trial.states

        wait_for(failed, lambda: f"refused or FAILED: {trial.answer.status} {trial.states}", _SECONDS)
        assert trial.answer.status < 500, f"answered with {trial.answer.status}: {trial.told[-600:]}"
        missing = [text for text in texts if text.lower() not in trial.told.lower()]
        assert not missing, f"says nothing of {missing}: {trial.told[-600:]}"

    return promise


def restarts(*texts: str) -> Promise:
    """The task fails with a retriable error that has these texts, and is restarted."""

    def promise(trial: Trial) -> None:
        wait_for(
            lambda: all(text in trial.told for text in texts),
            lambda: f"the status tells {texts}: {trial.states} {trial.told[-600:]}",
            _SECONDS,
        )

    return promise


def delivers(trial: Trial) -> None:
    """The connector runs, and its records arrive like a good one's."""
    wait_for(
        lambda: trial.answer.status < 300 and trial.delivered() >= _GOOD_ENOUGH,
        lambda: f"delivers: {trial.states} {trial.told[-600:]}",
        _SECONDS,
    )
    assert "FAILED" not in trial.states, trial.told[-600:]


def settles(trial: Trial) -> None:
    """The connector is refused or FAILED with a reason, or runs and delivers."""

    def settled() -> bool:
        failed = trial.answer.status >= 400 or "FAILED" in trial.states or "RESTARTING" in trial.states
        return failed or trial.delivered() >= _GOOD_ENOUGH

    wait_for(settled, lambda: f"FAILED or at work: {trial.states} {trial.told[-600:]}", _SECONDS)
    assert trial.answer.status < 500, f"answered with {trial.answer.status}: {trial.told[-600:]}"
    if "FAILED" in trial.states:
        assert trial.told, "FAILED without a reason"


def stores(seq: object) -> Promise:
    """The connector runs, and its offset is stored as it is."""

    def promise(trial: Trial) -> None:
        wait_for(
            lambda: any(at["offset"].get("seq") == seq for at in trial.site.worker.offsets(trial.name)),
            lambda: f"stores {seq!r}: {trial.states} {trial.told[-600:]}",
            _SECONDS,
        )
        assert "FAILED" not in trial.states, trial.told[-600:]

    return promise


def lets_go(trial: Trial) -> None:
    """The connector can be deleted, which is checked for all cases. There is no other promise."""
    assert trial.answer.status in (201, 400), trial.answer


def run(site: Site, cases: Mapping[str, Case]) -> dict[str, str]:
    """Run the cases, several at once; return the broken promises by case."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = dict(zip(cases, pool.map(lambda name: _run(site, name, cases[name]), cases), strict=True))
    return {name: wrong for name, wrong in results.items() if wrong}


def _run(site: Site, title: str, case: Case) -> str:
    name = unique(re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40])
    config: dict[str, Any] = {"topic": name, "tasks.max": "1", "poll.ms": "20", **case.config}
    site.kafka.create(name, **case.topic)
    try:
        trial = Trial(site, name, site.worker.create(name, config))
        case.promise(trial)
        if case.promise is delivers:
            unsound = faults(site.kafka, name, site.committed(name))
            assert not unsound, unsound
        site.worker.delete(name)
    except (AssertionError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def ends_and_comes_back(site: Site, title: str, case: Case) -> str:
    """Run a case that may end or break the worker's process, restart the process, and check the promise then.

    Returns the broken promises.
    """
    name = unique(re.sub(r"[^a-z0-9]+", "-", title.lower()))
    done = Path(case.config["once"])
    site.kafka.create(name)
    try:
        site.worker.create(name, {"topic": name, "tasks.max": "1", "poll.ms": "20", **case.config})
        wait_for(lambda: done.exists() or not site.worker.process.running, f"{title} is done", _SECONDS)
        # If the broken process still runs, let it go on for a while.
        before = site.kafka.end(name)
        wait_for_some(lambda: not site.worker.process.running or site.kafka.end(name) > before + _GOOD_ENOUGH)
        site.worker.process.end()
        site.worker.revive()
        trial = Trial(site, name, site.worker.create(name, {"topic": name, "tasks.max": "1", **case.config}))
        case.promise(trial)
        site.worker.delete(name)
    except (AssertionError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
