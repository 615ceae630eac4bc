"""A source that is one function: it yields rows, each with the cursor after it.

    @source(key="id")
    def issues(config, cursor):
        for issue in fetch(config["url"], after=cursor or 0):
            yield issue, issue["id"]

The decorated name is a connector class: `connector.class=my_module.issues`. The function is called with the last
committed cursor, None at first. When it has ended and `poll.interval.ms` is over, it is called again with the last
yielded cursor.

The package imports this module, so code for columns is imported where it is used: Arrow takes a fifth of a second,
which commands without connectors would waste.
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
"""A position in the source: a simple value, or a dict of them."""

SourceFunction = Callable[..., Iterable[tuple[Any, Cursor]]]
"""`function(config, cursor)` yields `(row, cursor after the row)` pairs; with partitions, `function(config, cursor, partition)`."""


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
    row: when called with it, the function yields the next row first. A frame in place of a row, of pyarrow, pandas,
    polars or anything that exports Arrow, has a row for each record, and the cursor is the one after all of them. `key`
    is the name of a column of the rows, which are then dicts, for the records' key: it is the default of the property
    `key.columns`. Without a key, `@source` needs no parentheses. The configuration has the properties of every source
    of rows (`topic`, `key.columns`, `topic.column`, `timestamp.column`, `headers.columns`), `batch.rows` and
    `poll.interval.ms`, and any others for the function.

    `config` declares the function's own properties. They are checked as those of any connector, and the function gets
    their typed values: `{"url": str, "page.size": 100, "since": ("2026-01-01", "The first day")}`, where a type
    declares a required property and a value a default, or a ConfigDef. `partitions` are source partitions, as texts,
    numbers or dicts of them, or a function of the configuration that returns them. They are shared out over `tasks.max`
    tasks, and each has its own cursor: the function is called with `(config, cursor, partition)` for each. Without them
    the connector has one task.

    Raises TypeError for anything but such a function, and for declarations in another form.
    """
    own = own_properties(config)
    check_partitions(partitions)

    def made(function: SourceFunction) -> type[SourceConnector]:
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

    return made if function is None else made(function)


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
    """The base of the connectors that `source` makes."""

    # A SourceFunction, as a static method.
    function: ClassVar[Any]
    key: ClassVar[str | None]
    own: ClassVar[ConfigDef | None]
    # As given to the decorator.
    partitions: ClassVar[Any]

    def config(self) -> ConfigDef:
        """Return the definitions of the properties of every function's source; the others are the function's own."""
        from fencepost.connectors.functions.task import definitions  # noqa: PLC0415 - see the module

        return definitions(self.key, self.own)

    def validate(self, config: Config) -> list[ConfigValue]:
        """Check each property, and those that depend on others."""
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
        """Return one task, or the tasks that share the source partitions. Raises ConfigError for invalid ones."""
        from fencepost.connectors.functions.task import PARTITIONS, function_config  # noqa: PLC0415 - see the module

        config = dict(self.context.configs())
        if self.partitions is None:
            return [config]
        given = function_config(self.config().parse(config), config, self.own)
        partitions = partitions_of(self.partitions, given, self.function.__qualname__)
        shares = distribute(partitions, min(max_tasks, len(partitions)))
        return [config | {PARTITIONS: f"[{', '.join(share)}]"} for share in shares]

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport:
        """Say yes: the function resumes at its cursor."""
        del config
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self,
        config: Config,
        offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]],
    ) -> bool:
        """Refuse offsets that would not reach the function. Offsets of any source partition may be removed."""
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
