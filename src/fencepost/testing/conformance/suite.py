"""The checks, and a run of all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from fencepost.api.source import SourceConnector
from fencepost.failpoint import FailPoint
from fencepost.testing.conformance import check_commits, check_config, check_reading
from fencepost.testing.conformance.check_transform import RULES, TransformSubject
from fencepost.testing.conformance.kills import KilledWorkers
from fencepost.testing.conformance.subject import Limits, Subject
from fencepost.testing.conformance.violation import NotApplicableError, Violation


@dataclass(frozen=True, slots=True)
class Check:
    """One rule for connectors. `title` is the rule in one sentence.

    Called with a connector's class and a configuration, it raises Violation if the connector breaks the rule:

        @pytest.mark.parametrize("check", CHECKS, ids=str)
        def test_conformance(check, tmp_path):
            check(MyConnector, {"file": str(tmp_path / "a.csv")})

    `ignore` names headers and fields of values that are not compared, such as the time of reading.
    """

    name: str
    title: str
    run: Callable[[Any], None]

    def __call__(
        self,
        connector: type[SourceConnector],
        config: Mapping[str, str],
        limits: Limits | None = None,
        *,
        ignore: Collection[str] = (),
    ) -> None:
        """Check a connector. Its source must have records. Does nothing if the rule does not apply to the connector."""
        try:
            self.run(Subject(connector, config, limits or Limits(), frozenset(ignore)))
        except NotApplicableError:
            return

    def __str__(self) -> str:
        return self.name


class CheckOutcome(Enum):
    """The outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one check. `reason` says why it was skipped. `seconds` is its duration."""

    check: Check
    outcome: CheckOutcome
    seconds: float
    violation: Violation | None = None
    reason: str = ""


def _check(run: Callable[[Subject], None]) -> Check:
    return Check(run.__name__, (run.__doc__ or "").strip(), run)


_FIRST: Final = _check(check_reading.reads_the_source)

CHECKS: Final[Sequence[Check]] = (
    _check(check_config.defines_its_properties),
    _check(check_config.validates_any_configuration),
    _FIRST,
    _check(check_config.reads_only_defined_properties),
    _check(check_config.restarts_the_same_tasks),
    _check(check_config.makes_the_same_tasks_in_any_process),
    _check(check_config.says_whether_it_is_exactly_once),
    _check(check_reading.gives_the_same_again),
    _check(check_reading.resumes_from_every_offset),
    _check(check_reading.waits_for_more),
    _check(check_reading.stops_promptly),
    _check(check_commits.tasks_share_no_source_partition),
    _check(check_commits.partitions_follow_task_configs),
    _check(check_config.accepts_its_own_offsets),
    # These checks commit, and a source may forget committed records. So they come last.
    _check(check_commits.survives_restarts),
    _check(check_commits.survives_kills_before_a_commit),
    _check(check_commits.survives_kills_after_a_commit),
    _check(check_commits.survives_more_and_fewer_tasks),
)
"""All checks, in the order in which they are run."""


def kill_checks(workers: KilledWorkers) -> Sequence[Check]:
    """Return a check for each step of a transaction, at which a real worker is killed with SIGKILL."""

    def at(point: FailPoint) -> Check:
        title = f"Killed with SIGKILL at the step {point.value} of a transaction, real workers write each record once."
        return Check(f"survives_sigkill_{point.value.replace('-', '_')}", title, lambda _: workers.check(point))

    return [at(point) for point in FailPoint]


def transform_checks(subject: TransformSubject) -> Sequence[Check]:
    """Return the checks of a transform."""

    def of(rule: Callable[[TransformSubject], None]) -> Check:
        return Check(rule.__name__, (rule.__doc__ or "").strip(), lambda _: rule(subject))

    return [of(rule) for rule in RULES]


def run_checks(subject: Subject | TransformSubject, checks: Sequence[Check] = CHECKS) -> Iterator[Result]:
    """Run checks one after another, and yield each result. Checks of a transform use a TransformSubject.

    If the source cannot be read at all, all later checks are skipped.
    """
    unreadable = False
    for check in checks:
        if unreadable:
            yield Result(check, CheckOutcome.SKIPPED, 0.0, reason=f"{_FIRST} failed")
            continue
        started = time.monotonic()
        try:
            check.run(subject)
        except NotApplicableError as why:
            yield Result(check, CheckOutcome.SKIPPED, time.monotonic() - started, reason=str(why))
        except Violation as violation:
            unreadable = check is _FIRST
            yield Result(check, CheckOutcome.FAILED, time.monotonic() - started, violation)
        else:
            yield Result(check, CheckOutcome.PASSED, time.monotonic() - started)
