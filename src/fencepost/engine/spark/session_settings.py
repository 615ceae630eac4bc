"""The settings of a worker's Spark session.

The user's `spark.*` settings override the defaults below, except for two settings that could make Spark write a batch
twice; see `REQUIRED`. https://spark.apache.org/docs/latest/configuration.html.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Final, NamedTuple

from fencepost.api.errors import ConfigError
from fencepost.engine.spark import sockets

LOCAL_SLOTS_PER_CORE: Final = 8
"""A local session has more task slots than cores, and no job takes more than `cores` of them (its parallelism).

So a large batch of one task leaves slots for small batches of other tasks, and the operating system schedules the
cores.
"""

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.app.name": "fencepost",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Rows pass through the JVM in Arrow batches and are never collected, so a small heap is enough for files of any
    # size.
    "spark.driver.memory": "512m",
    # The tasks of one worker share the session. Each task has its own pool, so that no task waits behind another's
    # backlog.
    "spark.scheduler.mode": "FAIR",
    # A write is never retried: the worker aborts the transaction and plans the batch again.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    # If true, a stage that lost shuffle output with a decommissioned executor would run again, uncounted as an attempt.
    "spark.stage.ignoreDecommissionFetchFailure": "false",
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    # Spark ends Python workers after 60 s without work. New workers are forked from a process that has done the
    # imports.
    "spark.python.daemon.module": "fencepost.engine.spark.daemon",
    # This switches off recording the call sites of DataFrame expressions, which takes half of the JVM calls of a small
    # batch with transforms.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Connect shows timestamps as text in UTC.
    "spark.sql.session.timeZone": "UTC",
}
LOCAL_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # By default Spark would end the JVM, which all tasks share, if a row takes too much stack or memory.
    "spark.executor.killOnFatalError.depth": "0",
    # sockets.py adds the setting for the folder of the sockets.
    sockets.ENABLED: "true",
}


class Required(NamedTuple):
    """The value that a setting must have, Spark's own default for it, and the reason."""

    value: str
    default: str
    reason: str


REQUIRED: Final[Mapping[str, Required]] = {
    "spark.speculation": Required(
        "false", "false", "a speculative copy of a task would write its records a second time"
    ),
    "spark.stage.maxConsecutiveAttempts": Required(
        "1", "4", "a stage that runs again would write its records a second time"
    ),
}
"""Settings that must have a certain value, also in a session that another program created."""


def session_settings(
    settings: Mapping[str, str], *, import_path: Sequence[str] = (), cores: int | None = None
) -> dict[str, str]:
    """The settings of a session: the defaults, overridden by the user's `spark.*`.

    Raises ConfigError for forbidden settings.

    `import_path` are directories for the import path of Python workers. They contain connectors from `plugin.path`.
    """
    cores = cores or os.cpu_count() or 1
    merged = {"spark.master": f"local[{LOCAL_SLOTS_PER_CORE * cores}]", **DEFAULTS}
    chosen = {name: value for name, value in settings.items() if name.startswith("spark.")}
    if "spark.master" not in chosen:
        merged["spark.default.parallelism"] = str(cores)
    if is_local(merged | chosen):
        merged |= LOCAL_DEFAULTS
    merged["spark.driver.extraJavaOptions"] = _quiet_logging()
    merged |= chosen
    if import_path:
        known = merged.get("spark.executorEnv.PYTHONPATH")
        merged["spark.executorEnv.PYTHONPATH"] = os.pathsep.join([*import_path, *([known] if known else [])])
    check_settings(merged)
    return merged


def is_local(settings: Mapping[str, str]) -> bool:
    """Return whether the executors of a session are threads on this machine."""
    return settings["spark.master"].startswith("local")


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise ConfigError if the settings of a session could make Spark write a batch twice."""
    for name, required in REQUIRED.items():
        value = settings.get(name, required.default)
        if value.strip().lower() != required.value:
            unset = "" if name in settings else ", which is Spark's default,"
            raise ConfigError(
                f"{name}={value}{unset} cannot be used: {required.reason}. Set {name}={required.value}", name=name
            )


def _quiet_logging() -> str:
    # The path is written as a URI, because that is ASCII without spaces: Spark would split the options at spaces.
    with resources.as_file(resources.files("fencepost.engine.spark").joinpath("log4j2.properties")) as file:
        return f"-Dlog4j2.configurationFile={file.absolute().as_uri()}"
