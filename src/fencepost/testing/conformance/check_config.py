"""Checks of a connector's own methods: its configuration, its tasks, and its answers about offsets."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError
from fencepost.api.source import TASK_ADDITIONS
from fencepost.config.connector_config import connector_config_def
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.validation_context import ValidationContext
from fencepost.testing.conformance.other_process import task_configs_in_processes
from fencepost.testing.conformance.subject import Subject
from fencepost.testing.conformance.violation import NotApplicableError, Violation, author_line, defined_at, raised
from fencepost.testing.connector_start import full_config
from fencepost.testing.task_run import RunningTask

_T = ConfigDef.Type
_TASK_COUNTS: Final = (1, 2, 3)
_INVALID: Final[Mapping[ConfigDef.Type, str]] = {
    _T.BOOLEAN: "perhaps", _T.INT: "many", _T.SHORT: "many", _T.LONG: "many", _T.DOUBLE: "much",
}  # fmt: skip


def defines_its_properties(subject: Subject) -> None:
    """config() documents each property, and its defaults are valid."""
    instance = _instance(subject)
    for key in instance.config().keys().values():
        if not key.documentation.strip():
            raise Violation(
                f"config() does not say what the property {key.name} means: give it a documentation",
                defined_at(subject.connector, "config"),
            )
        if key.required or key.default is None or key.validator is None:
            continue
        try:
            key.validator(key.name, key.default)
        except ConfigError as error:
            raise Violation(
                f"The default of the property {key.name} is refused by its own validator: {error}",
                defined_at(subject.connector, "config"),
            ) from error


def validates_any_configuration(subject: Subject) -> None:
    """validate() returns the errors of a configuration. It does not raise if properties are missing or invalid."""
    full = full_config(subject.connector, subject.config)
    own = _instance(subject).config().keys()
    cases = {f"without {name}": {n: v for n, v in full.items() if n != name} for name in own if name in full}
    cases |= {
        f"with {name}={_INVALID[key.type]}": {**full, name: _INVALID[key.type]}
        for name, key in own.items()
        if key.type in _INVALID
    }
    for what, config in cases.items():
        instance = _instance(subject)
        instance.set_context(ValidationContext(config, ANYWHERE))
        try:
            instance.validate(config)
        except Exception as error:
            raise raised(f"validate() of a configuration {what}", error, subject.connector, "validate") from error


def reads_only_defined_properties(subject: Subject) -> None:
    """The connector and its tasks read no property that config() does not define."""
    defined = {*_instance(subject).config().keys(), *connector_config_def().keys()}
    if defined == set(connector_config_def().keys()):
        raise NotApplicableError("config() defines nothing, so nothing is checked")
    recorded = _Recorded(full_config(subject.connector, subject.config))
    with subject.started() as started:
        started.instance.stop()
        started.instance.start(recorded, started.context)
        config = _Recorded(subject.task_configs(started, 1)[0])
        RunningTask(started, 0, config).stop()
    # A task's configuration may have additional properties, which the connector itself adds.
    allowed = defined | (config.keys() - recorded.keys()) | {TASK_ADDITIONS}
    for reads in (recorded, config):
        for name, where in reads.read.items():
            if name not in allowed:
                raise Violation(
                    f"The property {name} is read, but config() does not define it: it is neither documented nor checked",
                    where,
                )


def restarts_the_same_tasks(subject: Subject) -> None:
    """The connector can be stopped and started again, as for a pause, and then makes the same tasks."""
    for count in _TASK_COUNTS:
        with subject.started(tasks_max=count) as started:
            before = subject.task_configs(started, count)
            try:
                started.instance.stop()
                started.instance.start(started.config, started.context)
            except Exception as error:
                raise raised("The second start of the connector", error, subject.connector, "start") from error
            again = subject.task_configs(started, count)
        if before != again:
            raise Violation(
                f"After stop() and start(), task_configs({count}) returned other configurations: {before} and {again}",
                defined_at(subject.connector, "task_configs"),
            )


def makes_the_same_tasks_in_any_process(subject: Subject) -> None:
    """The connector makes the same tasks in each process, as after a restart of the worker."""
    first, *others = task_configs_in_processes(subject.connector, subject.config, _TASK_COUNTS)
    for other in others:
        for count, before, again in zip(_TASK_COUNTS, first, other, strict=True):
            if before != again:
                raise Violation(
                    f"In two processes, task_configs({count}) returned different configurations: {before} and {again}. "
                    "Do not use hash() of a text, nor the order of a set: both change with each start of Python. Use "
                    "zlib.crc32 and sorted()",
                    defined_at(subject.connector, "task_configs"),
                )


def accepts_its_own_offsets(subject: Subject) -> None:
    """alter_offsets() takes the offsets that the tasks returned, and refuses others by ConfigError or DataError."""
    pairs = [pair for step in subject.reference.steps for pair in step.offsets][-1:]
    with subject.started() as started:
        instance, config = started.instance, started.config
        try:
            instance.alter_offsets(config, pairs)
            instance.alter_offsets(config, [(partition, None) for partition, _ in pairs])
        except Exception as error:
            raise raised(f"alter_offsets() of {pairs!r}", error, subject.connector, "alter_offsets") from error
        try:
            instance.alter_offsets(config, [({"fencepost": "no such"}, {"fencepost": "no such"})])
        except (ConfigError, DataError):
            return
        except Exception as error:
            raise raised(
                "alter_offsets() of offsets of another form", error, subject.connector, "alter_offsets"
            ) from error


def says_whether_it_is_exactly_once(subject: Subject) -> None:
    """exactly_once_support() answers."""
    with subject.started() as started:
        answer = started.instance.exactly_once_support(started.config)
    if answer is None:
        raise NotApplicableError("exactly_once_support() returns None: exactly.once.support=required would be refused")


class _Recorded(dict[str, str]):
    """A configuration that records which properties are read, each with the line of code that read it first."""

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self.read: dict[str, str | None] = {}

    def __getitem__(self, name: str) -> str:
        self._note(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._note(name)
        return super().get(name, default)

    def _note(self, name: str) -> None:
        if name not in self.read:
            self.read[name] = author_line(inspect.currentframe())


def _instance(subject: Subject) -> ConnectorInstance:
    instance = ConnectorInstance.of(subject.connector, "test")
    instance.set_context(ValidationContext(full_config(subject.connector, subject.config), ANYWHERE))
    return instance
