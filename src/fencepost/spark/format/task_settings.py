"""Checks settings of the session, and the trigger, in a Spark task, because a data source cannot see them."""

from __future__ import annotations

from typing import Final

from pyspark import TaskContext

from fencepost.api.errors import ConfigError

_CHECKSUMS: Final = "spark.sql.shuffle.orderIndependentChecksum"
_NEEDED: Final = (f"{_CHECKSUMS}.enabled", f"{_CHECKSUMS}.enableFullRetryOnMismatch")
"""With these settings, Spark fails a stage that gets other rows when it runs again. By default both are true."""


_CONTINUOUS: Final = "__epoch_coordinator_id"
"""A local property that only tasks of continuous processing have."""


def check_task_settings(context: TaskContext) -> None:
    """Raise ConfigError if Spark could run a stage again with other rows, or if the query is continuous.

    A task cannot detect that a stage runs again. So the settings with which Spark fails such a stage are required. They
    are true by default, and a task sees each setting that differs from its default.
    """
    if context.getLocalProperty(_CONTINUOUS) is not None:
        raise continuous_trigger()
    for name in _NEEDED:
        if (context.getLocalProperty(name) or "true").strip().lower() != "true":
            raise ConfigError(
                f"The Spark session has {name}=false: if a shuffle file were lost, the rest of the write could get other "
                f'rows than the tasks that have ended, and rows could be lost or written twice. Set spark.conf.set("{name}", '
                '"true")',
                name=name,
            )


def continuous_trigger() -> ConfigError:
    """Return the error for a query with a continuous trigger, whose epochs are not micro-batches of its checkpoint."""
    return ConfigError(
        'A stream by format("fencepost") writes micro-batches, and a query with a continuous trigger has none: use '
        "trigger(processingTime=...) or trigger(availableNow=True)"
    )
