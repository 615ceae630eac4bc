"""Settings for automatic restarts of failed tasks and connectors: of one connector, or of all in a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from fencepost.api.config_def import ConfigDef
from fencepost.config.validators import at_least, one_of

_T = ConfigDef.Type
_I = ConfigDef.Importance

UNLIMITED: Final = -1


class TaskRestartPolicy(StrEnum):
    """The values of the property `task.restart.policy`."""

    NEVER = "never"
    RETRIABLE = "retriable"
    ALWAYS = "always"


def define_restarts(definitions: ConfigDef, *, whose: str, group: str | None = None) -> ConfigDef:
    """Add the properties; `whose` names their scope. Returns the definitions."""
    return (
        definitions.define(
            "task.restart.policy", _T.STRING, "retriable", _I.MEDIUM,
            "After which failures a task restarts automatically, from its committed offsets. retriable: brokers do not "
            "answer, an open transaction hides source offsets, a Spark job failed, or a plugin raised RetriableError. "
            "always: all failures except an invalid configuration and a task that another instance has replaced. never: "
            f"none. {whose}",
            validator=one_of([str(policy) for policy in TaskRestartPolicy]), group=group, order_in_group=6,
        )
        .define(
            "task.restart.max", _T.INT, 10, _I.LOW,
            "How often in a row, without a commit between them, a task restarts before it is FAILED; -1: no limit. "
            f"{whose}",
            validator=at_least(UNLIMITED, nullable=False), group=group, order_in_group=7,
        )
        .define(
            "task.restart.backoff.ms", _T.LONG, 500, _I.LOW,
            "The pause before the first restart, in milliseconds. Each further pause in a row is twice as long, up to "
            f"30 s. {whose}",
            validator=at_least(0, nullable=False), group=group, order_in_group=8,
        )
    )  # fmt: skip


_DEFINITIONS: Final = define_restarts(ConfigDef(), whose="")


@dataclass(frozen=True, slots=True)
class RestartConfig:
    """The settings for automatic restarts of tasks and connectors.

    `backoff_s` is the first pause, in seconds. `most` is the largest number of restarts, or UNLIMITED.
    """

    policy: TaskRestartPolicy = TaskRestartPolicy.RETRIABLE
    most: int = 10
    backoff_s: float = 0.5

    @classmethod
    def of(cls, worker: Mapping[str, str], connector: Mapping[str, str]) -> RestartConfig:
        """Read the properties. A connector's property overrides the worker's. Raises ConfigError."""
        values = _DEFINITIONS.parse({**worker, **connector})
        return cls(
            TaskRestartPolicy(values["task.restart.policy"].lower()),
            values["task.restart.max"],
            values["task.restart.backoff.ms"] / 1000,
        )
