"""Tools for tests of connectors.

    run_task        one task in the test's own process, without Kafka: what does poll return, and where does it resume?
    run_transform   a transform, without Kafka: what does it make of some records?
    CHECKS          the rules for connectors, each a function that checks a connector
    run_connector   a whole worker on a Kafka broker: what do read_committed consumers see?

The pytest plugin of fencepost provides the fixture `fencepost_broker`, a broker for `run_connector`.
"""

from fencepost.testing.conformance import CHECKS, Check, Limits, Violation
from fencepost.testing.connector_run import RunningConnector, run_connector
from fencepost.testing.source_offsets import SourceOffsets
from fencepost.testing.task_run import Polled, RunningTask, run_task
from fencepost.testing.transform_run import run_transform

__all__ = [
    "CHECKS",
    "Check",
    "Limits",
    "Polled",
    "RunningConnector",
    "RunningTask",
    "SourceOffsets",
    "Violation",
    "run_connector",
    "run_task",
    "run_transform",
]
