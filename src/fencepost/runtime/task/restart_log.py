"""Logs the failures of tasks, and whether the tasks restart."""

from __future__ import annotations

import logging
from typing import Final

from fencepost.api.errors import describe_error
from fencepost.config.file_descriptors import OutOfFileDescriptorsError
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.state import ReplacedError

_log: Final = logging.getLogger(__name__)


def log_restart(task: ConnectorTaskId, when: str, error: Exception, last: Exception | None) -> None:
    """Log a failure after which the task restarts. `last` is the cause of the previous restart, if there was one."""
    # Hundreds of tasks may wait for descriptors for hours, so each of them warns only once.
    already_warned = isinstance(error, OutOfFileDescriptorsError) and isinstance(last, OutOfFileDescriptorsError)
    level = logging.DEBUG if already_warned else logging.WARNING
    _log.log(level, "Task %s failed and restarts %s: %s", task, when, describe_error(error))


def log_failure(task: ConnectorTaskId, error: Exception) -> None:
    """Log a failure after which the task does not restart by itself."""
    if isinstance(error, ReplacedError):
        _log.warning("%s", describe_error(error))
    else:
        _log.error("Task %s failed: %s", task, describe_error(error), exc_info=error)
