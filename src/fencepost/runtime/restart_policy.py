"""Decides when failed tasks and connectors restart automatically, and after which pause."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fencepost.api.errors import ConfigError, RetriableError
from fencepost.config.file_descriptors import OutOfFileDescriptorsError
from fencepost.config.restart_config import UNLIMITED, RestartConfig, TaskRestartPolicy
from fencepost.engine.errors import SparkJobError, SparkStartError
from fencepost.java.errors import JvmEndedError
from fencepost.kafka.errors import ProducerFencedError, TransactionAbortableError, UnknownOutcomeError
from fencepost.runtime.state import EndNotReachedError, ReplacedError
from fencepost.storage.errors import SharedPartitionError

LONGEST_DELAY_S: Final = 30.0

# The pause reaches its limit long before this many doublings. Without this maximum, the power of two would overflow.
_MOST_DOUBLINGS: Final = 32

_RETRIABLE: Final = (RetriableError, JvmEndedError, TransactionAbortableError, UnknownOutcomeError, SparkJobError)
_FINAL: Final = (ConfigError, EndNotReachedError, ProducerFencedError, ReplacedError, SharedPartitionError)


def is_worth_a_restart(error: Exception) -> bool:
    """Return whether a failure is retriable: whether a restart from the committed offsets may help.

    Fencing, an expired transaction, invalid data or configuration, a failed start of Spark, and other exceptions of a
    connector's code are fatal.
    """
    return isinstance(error, _RETRIABLE) and not isinstance(error, SparkStartError)


def patience(config: RestartConfig) -> float | None:
    """Return the sum of the pauses before all consecutive restarts, in seconds; None if they are unlimited."""
    if config.policy is TaskRestartPolicy.NEVER:
        return 0.0
    if config.most == UNLIMITED:
        return None
    doubling = min(config.most, _MOST_DOUBLINGS)
    rest = (config.most - doubling) * _pause(config, _MOST_DOUBLINGS)
    return sum(_pause(config, restarts) for restarts in range(doubling)) + rest


def _pause(config: RestartConfig, restarts: int) -> float:
    """Return the seconds to wait after a number of consecutive restarts."""
    first = config.backoff_s
    return min(first * 2.0 ** min(restarts, _MOST_DOUBLINGS), max(first, LONGEST_DELAY_S))


class RestartPolicy:
    """Counts consecutive restarts. `config` may be changed at any time."""

    def __init__(self, config: RestartConfig | None = None) -> None:
        self.config = config or RestartConfig()
        # Two counts: True for restarts because of missing file descriptors, False for all others.
        self._restarts: Counter[bool] = Counter()

    def progressed(self) -> None:
        """Record a commit, or another sign that the last start was successful."""
        self._restarts.clear()

    def failed(self, error: Exception) -> float | None:
        """Return the seconds to wait before the next start; None if there is no restart.

        Restarts because of missing file descriptors have no limit and do not count, because others must release
        descriptors.
        """
        waits = isinstance(error, OutOfFileDescriptorsError)
        restarts = self._restarts[waits]
        if not self._is_covered(error) or (not waits and restarts >= self.config.most != UNLIMITED):
            return None
        self._restarts[waits] += 1
        return _pause(self.config, restarts)

    def _is_covered(self, error: Exception) -> bool:
        match self.config.policy:
            case TaskRestartPolicy.NEVER:
                return False
            case TaskRestartPolicy.RETRIABLE:
                return is_worth_a_restart(error)
            case TaskRestartPolicy.ALWAYS:
                return not isinstance(error, _FINAL)
