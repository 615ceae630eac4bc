"""Connectors that raise `what` in the method `where`."""

from __future__ import annotations

import asyncio
import sys

from fencepost import ConfigDef, DataError, RetriableError, SourceConnector

from good import Numbers, NumbersTask


class NotAnException(BaseException):
    """An exception that `except Exception` does not catch."""


class Unspeakable(Exception):
    """An error whose text cannot be computed."""

    def __str__(self):
        raise RuntimeError("no message for you")


class SpeaksBytes(Exception):
    """An error whose text is not text."""

    def __str__(self):
        return b"bytes"


class Surrogate(Exception):
    """An error whose text is not UTF-8."""

    def __str__(self):
        return "half a \ud800 pair"


class Endless(Exception):
    """An error that is its own cause."""

    def __init__(self):
        super().__init__("my own cause")
        self.__cause__ = self


class Retort(Exception):
    """An error that cannot be unpickled."""

    def __init__(self, one, two):
        super().__init__("told", one, two)

    def __reduce__(self):
        raise TypeError("not to be pickled")


def deep(depth=0):
    """Recurses until Python raises RecursionError."""
    return deep(depth + 1)


RAISES = {
    "exit": lambda: sys.exit(3),
    "exit quietly": lambda: sys.exit(),
    "exit with a text": lambda: sys.exit("I quit"),
    "interrupt": lambda: throw(KeyboardInterrupt("pressed by nobody")),
    "generator exit": lambda: throw(GeneratorExit("left")),
    "base exception": lambda: throw(NotAnException("not an Exception")),
    "stop iteration": lambda: throw(StopIteration("no more")),
    "cancelled": lambda: throw(asyncio.CancelledError("cancelled by nobody")),
    "unspeakable": lambda: throw(Unspeakable()),
    "bytes": lambda: throw(SpeaksBytes()),
    "surrogate": lambda: throw(Surrogate()),
    "endless": lambda: throw(Endless()),
    "retort": lambda: throw(Retort(1, 2)),
    "recursion": deep,
    "memory": lambda: throw(MemoryError("all gone")),
    "system error": lambda: throw(SystemError("not by Python")),
    "group": lambda: throw(BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError("one of them")])),
    "timeout": lambda: throw(TimeoutError("slow source")),
    "long": lambda: throw(ValueError("x" * 3_000_000)),
    "lines": lambda: throw(ValueError('one\ntwo\r\n{"three": "\x00\x1b[31m"}')),
    "value": lambda: throw(ValueError("a plain error")),
    "data": lambda: throw(DataError("a row that does not fit")),
    "retriable": lambda: throw(RetriableError("the source is away")),
}


def throw(error):
    raise error


class RaisingTask(NumbersTask):
    """Raises in one method, after one good poll."""

    def start(self, config):
        super().start(config)
        self.config = config
        self.polls = 0
        self.raise_in("start")

    def raise_in(self, where):
        if self.config["where"] == where:
            RAISES[self.config["what"]]()

    def poll(self):
        self.polls += 1
        if self.polls > 1:
            self.raise_in("poll")
        return super().poll()

    def commit(self):
        self.raise_in("commit")

    def commit_record(self, record, metadata):
        self.raise_in("commit_record")

    def lag(self):
        self.raise_in("lag")

    def stop(self):
        super().stop()
        self.raise_in("stop")


class InitRaisesTask(NumbersTask):
    """Raises in its constructor."""

    def __init__(self):
        raise SystemExit("no task today")


class Raising(Numbers):
    """Raises in a method of the connector, or else in its tasks."""

    told = {}

    def raise_in(self, where, config):
        if config.get("where") == f"connector {where}":
            RAISES[config["what"]]()

    def validate(self, config):
        self.raise_in("validate", config)
        return super().validate(config)

    def start(self, config):
        super().start(config)
        self.raise_in("start", config)

    def task_class(self):
        return RaisingTask

    def task_configs(self, max_tasks):
        self.raise_in("task_configs", self.config_of_all)
        return super().task_configs(max_tasks)

    def exactly_once_support(self, config):
        self.raise_in("exactly_once_support", config)
        return super().exactly_once_support(config)

    def can_define_transaction_boundaries(self, config):
        self.raise_in("can_define_transaction_boundaries", config)
        return super().can_define_transaction_boundaries(config)

    def alter_offsets(self, config, offsets):
        self.raise_in("alter_offsets", config)
        return True

    def partitions_follow_task_configs(self, config):
        self.raise_in("partitions_follow_task_configs", config)
        return False

    def stop(self):
        self.raise_in("stop", self.config_of_all)


class InitExits(Numbers):
    """Calls sys.exit() in its constructor."""

    def __init__(self):
        sys.exit(4)


class VersionExits(Numbers):
    """Calls sys.exit() in version()."""

    def version(self):
        sys.exit(4)


class ConfigExits(Numbers):
    """Calls sys.exit() in config()."""

    def config(self):
        sys.exit(4)


class TaskClassExits(Numbers):
    """Calls sys.exit() in task_class()."""

    def task_class(self):
        sys.exit(4)


class TaskInitExits(Numbers):
    """Has a task that exits in its constructor."""

    def task_class(self):
        return InitRaisesTask


class ValidatorExits(Numbers):
    """Calls sys.exit() in the validator of a property."""

    def config(self):
        def check(name, value):
            sys.exit(4)

        return ConfigDef().define("topic", ConfigDef.Type.STRING, validator=check)


class Abstract(SourceConnector):
    """Lacks methods that a connector must have."""
