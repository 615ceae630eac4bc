"""Checks whether a connector keeps the rules that exactly-once delivery needs. See `Check` and `run_checks`.

A connector passes if its tasks return the same records whatever happens to the worker. Its classes are called as a
worker calls them, in this process and without Kafka: what the worker itself does is tested elsewhere.
"""

from fencepost.testing.conformance.subject import Limits
from fencepost.testing.conformance.suite import CHECKS, Check, Outcome, Result, run_checks
from fencepost.testing.conformance.violation import Violation

__all__ = ["CHECKS", "Check", "Limits", "Outcome", "Result", "Violation", "run_checks"]
