"""Decides when failed tasks and connectors restart automatically, and after which pause."""

from __future__ import annotations

from typing import Final

from fencepost.api.errors import ConfigError, RetriableError
from fencepost.config.restart_config import UNLIMITED, RestartConfig, TaskRestartPolicy
from fencepost.engine.errors import SparkJobError, SparkStartError
from fencepost.kafka.errors import ProducerFencedError, TransactionAbortableError, UnknownOutcomeError
from fencepost.runtime.state import ReplacedError
from fencepost.storage.errors import SharedPartitionError

LONGEST_DELAY_S: Final = 30.0

# More doublings than this would only make a number too large.
_MOST_DOUBLINGS: Final = 32

_RETRIABLE: Final = (RetriableError, TransactionAbortableError, UnknownOutcomeError, SparkJobError)
_FINAL: Final = (ConfigError, ProducerFencedError, ReplacedError, SharedPartitionError)


def is_worth_a_restart(error: Exception) -> bool:
    """Return whether a failure is retriable by a restart from the committed offsets.

    Fencing, an expired transaction, invalid data or configuration, a failed start of Spark, and other exceptions of a
    connector's code are fatal.
    """
    return isinstance(error, _RETRIABLE) and not isinstance(error, SparkStartError)


class RestartPolicy:
    """Counts the restarts in a row. `config` may be changed at any time."""

    def __init__(self, config: RestartConfig | None = None) -> None:
        self.config = config or RestartConfig()
        self._restarts = 0

    def progressed(self) -> None:
        """Record a commit, or another sign that the last start was successful."""
        self._restarts = 0

    def failed(self, error: Exception) -> float | None:
        """Return the seconds to wait before the next start; None for no restart."""
        if not self._is_covered(error) or self._restarts >= self.config.most != UNLIMITED:
            return None
        first = self.config.backoff_s
        delay = first * 2.0 ** min(self._restarts, _MOST_DOUBLINGS)
        self._restarts += 1
        return min(delay, max(first, LONGEST_DELAY_S))

    def _is_covered(self, error: Exception) -> bool:
        match self.config.policy:
            case TaskRestartPolicy.NEVER:
                return False
            case TaskRestartPolicy.RETRIABLE:
                return is_worth_a_restart(error)
            case TaskRestartPolicy.ALWAYS:
                return not isinstance(error, _FINAL)
