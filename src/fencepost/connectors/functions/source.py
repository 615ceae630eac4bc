"""A source that is one function: it yields rows, each with the cursor after it.

    @source(key="id")
    def issues(config, cursor):
        for issue in fetch(config["url"], after=cursor or 0):
            yield issue, issue["id"]

The decorated name is a connector class: `connector.class=my_module.issues`. The function is called with the last
committed cursor, at first with None. After the function has ended, it is called again with the cursor that it yielded
last. A poll that finds no rows waits for `poll.interval.ms` before the next call.

The package imports this module, so modules that need Arrow are only imported in functions: importing Arrow takes a
fifth of a second, and would slow down commands that run no connectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import isasyncgenfunction, iscoroutinefunction, isfunction, signature
from typing import Any, ClassVar, overload

from fencepost.api.config_def import ConfigDef, ConfigValue
from fencepost.api.context import ExactlyOnceSupport
from fencepost.api.errors import ConfigError
from fencepost.api.plugin_calls import kind_of
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.api.source import Config, SourceConnector, SourceTask
from fencepost.connectors.distribution import distribute
from fencepost.connectors.functions.declared import (
    Declared,
    PartitionsOf,
    check_partitions,
    own_properties,
    partitions_of,
    source_partition,
)

Cursor = str | int | float | bool | Mapping[str, Any]
"""A position in the source: a simple value, or a dict of simple values."""

SourceFunction = Callable[..., Iterable[tuple[Any, Cursor]]]
"""`function(config, cursor)`, which yields pairs `(row, cursor after the row)`.

A function with partitions is called as `function(config, cursor, partition)`.
"""


@overload
def source(function: SourceFunction, /) -> type[SourceConnector]: ...
@overload
def source(
    *, key: str | None = None, config: Declared = None, partitions: PartitionsOf = None
) -> Callable[[SourceFunction], type[SourceConnector]]: ...
def source(
    function: Any = None,
    /,
    *,
    key: str | None = None,
    config: Declared = None,
    partitions: PartitionsOf = None,
) -> Any:
    """Make a connector of a function `function(config, cursor)` that yields `(row, cursor)` pairs.

    A row is the record's value, in any form that `SourceRecord.value` may have. The cursor is the position after the
    row: if the function is called with this cursor, it starts with the next row. Instead of a row, the function may
    yield a frame of pyarrow, pandas, polars or anything that exports Arrow. Each row of the frame becomes a record, and
    the cursor is the position after all of them. `key` names the column for the records' key; the rows must then be
    dicts. This name is the default of the property `key.columns`. Without a key, `@source` needs no parentheses. The
    configuration has the properties of every source of rows (`topic`, `key.columns`, `topic.column`,
    `timestamp.column`, `headers.columns`), `batch.rows` and `poll.interval.ms`, and any other properties for the
    function.

    `config` declares the function's own properties. They are checked like the properties of any connector, and the
    function gets typed values. `config` is a ConfigDef, or a dict such as `{"url": str, "page.size": 100, "since":
    ("2026-01-01", "The first day")}`, in which a type declares a required property and a value is a default.
    `partitions` are source partitions: texts, numbers, or dicts of these, or a function that returns them for a
    configuration. They are distributed over `tasks.max` tasks, and each has its own cursor: the function is called with
    `(config, cursor, partition)` for each. Without partitions the connector has one task.

    Raises TypeError for an object that is not a function with these parameters, for an async function, and for an
    invalid declaration.
    """
    own = own_properties(config)
    check_partitions(partitions)

    def decorate(function: SourceFunction) -> type[SourceConnector]:
        _check_function(function, partitioned=partitions is not None)
        attributes = {
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "__doc__": function.__doc__,
            "function": staticmethod(function),
            "made_of": staticmethod(function),
            "key": key,
            "own": own,
            "partitions": staticmethod(partitions) if callable(partitions) else partitions,
        }
        return type(function.__name__, (FunctionSourceConnector,), attributes)

    return decorate if function is None else decorate(function)


def _check_function(function: Any, *, partitioned: bool) -> None:
    parameters = "config, cursor, partition" if partitioned else "config, cursor"
    expected = f"it takes a function({parameters}) that yields (row, cursor) pairs"
    if isinstance(function, str):
        raise TypeError(f"source({function!r}): {expected}. The key is given by its name: source(key={function!r})")
    if not isfunction(function):
        raise TypeError(f"source() was given {kind_of(function)}: {expected}")
    if iscoroutinefunction(function) or isasyncgenfunction(function):
        raise TypeError(f"source() was given the async function {function.__qualname__}: {expected}, without async")
    try:
        signature(function).bind({}, None, *([""] if partitioned else []))
    except TypeError as error:
        raise TypeError(
            f"source() was given {function.__qualname__}{signature(function)}: {expected} ({error})"
        ) from None


class FunctionSourceConnector(SourceConnector):
    """The base class of the connectors that `source` creates."""

    # A SourceFunction, stored as a static method.
    function: ClassVar[Any]
    key: ClassVar[str | None]
    own: ClassVar[ConfigDef | None]
    # The partitions as given to the decorator.
    partitions: ClassVar[Any]

    def config(self) -> ConfigDef:
        """Return the definitions of the properties of every function source, and of the function's own properties."""
        from fencepost.connectors.functions.task import definitions  # noqa: PLC0415 - see the module

        return definitions(self.key, self.own)

    def validate(self, config: Config) -> list[ConfigValue]:
        """Check each property, and the properties that depend on others."""
        from fencepost.connectors.rows.record_mapping import validate_columns  # noqa: PLC0415 - see the module

        return validate_columns(super().validate(config))

    def task_class(self) -> type[SourceTask]:
        """Return a task class that calls the function."""
        from fencepost.connectors.functions.task import FunctionSourceTask  # noqa: PLC0415 - see the module

        function = staticmethod(self.function)
        attributes = {
            "__module__": __name__,
            "function": function,
            "made_of": function,
            "key": self.key,
            "own": self.own,
        }
        return type(f"{type(self).__name__}Task", (FunctionSourceTask,), attributes)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the configurations of the tasks that share the source partitions; one task if there are no partitions.

        Raises ConfigError for invalid source partitions.
        """
        from fencepost.connectors.functions.task import PARTITIONS, function_config  # noqa: PLC0415 - see the module

        config = dict(self.context.configs())
        if self.partitions is None:
            return [config]
        given = function_config(self.config().parse(config), config, self.own)
        partitions = partitions_of(self.partitions, given, self.function.__qualname__)
        shares = distribute(partitions, min(max_tasks, len(partitions)))
        return [config | {PARTITIONS: f"[{', '.join(share)}]"} for share in shares]

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport:
        """Return SUPPORTED: the function resumes at its cursor."""
        del config
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self,
        config: Config,
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    ) -> bool:
        """Refuse offsets of source partitions that the function does not have. Any offset may be removed."""
        del config
        own = source_partition(self.function.__qualname__, None)
        for partition, offset in offsets:
            if offset is None:
                continue
            if self.partitions is None and partition != own:
                raise ConfigError(f"The source function has no source partition {partition}. Its only one is {own}")
            if self.partitions is not None and (partition is None or not own.items() < partition.items()):
                raise ConfigError(
                    f"The source function has no source partition {partition}. Each of its own has {own} and its names"
                )
        return True
