"""Checks in a Spark task what only Spark can notice of a stage that runs again."""

from __future__ import annotations

from typing import Final

from pyspark import TaskContext

from fencepost.api.errors import ConfigError

_CHECKSUMS: Final = "spark.sql.shuffle.orderIndependentChecksum"
_NEEDED: Final = (f"{_CHECKSUMS}.enabled", f"{_CHECKSUMS}.enableFullRetryOnMismatch")
"""With these, Spark fails a stage that gets other rows when it runs again. Both are true by default."""


def check_task_settings(context: TaskContext) -> None:
    """Raise ConfigError if Spark would run a stage again with other rows.

    A task cannot tell, but knows the settings that differ from Spark's defaults.
    """
    for name in _NEEDED:
        if (context.getLocalProperty(name) or "true").strip().lower() != "true":
            raise ConfigError(
                f"The Spark session has {name}=false: if a shuffle file were lost, the rest of the write could get other "
                f'rows than the tasks that have ended, and rows could be lost or written twice. Set spark.conf.set("{name}", '
                '"true")',
                name=name,
            )
