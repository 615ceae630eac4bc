"""Checks whether a connector keeps the rules that exactly-once delivery needs. See `Check` and `run_checks`.

A connector passes if its tasks return the same records whatever happens to the worker. Its classes are called as a
worker calls them, but in this process and without Kafka. `KilledWorkers` runs and kills real workers.
"""

from fencepost.testing.conformance.check_transform import TransformSubject
from fencepost.testing.conformance.kills import KilledWorkers
from fencepost.testing.conformance.subject import Limits, Subject
from fencepost.testing.conformance.suite import (
    CHECKS,
    Check,
    CheckOutcome,
    Result,
    kill_checks,
    run_checks,
    transform_checks,
)
from fencepost.testing.conformance.violation import Violation

__all__ = [
    "CHECKS",
    "Check",
    "CheckOutcome",
    "KilledWorkers",
    "Limits",
    "Result",
    "Subject",
    "TransformSubject",
    "Violation",
    "kill_checks",
    "run_checks",
    "transform_checks",
]
