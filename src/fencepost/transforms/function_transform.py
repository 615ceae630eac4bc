"""A transform that is one function on columns. It takes and returns Arrow, pandas or polars.

    @transform(schema="id BIGINT, total DOUBLE")
    def totals(rows: pa.RecordBatch) -> pa.RecordBatch:
        ...

The decorated name is the class of the transform: `transforms.t.type=my_module.totals`. function_rows calls the
function. The package `fencepost` imports this module, so modules for columns are imported only where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction, isfunction, isgeneratorfunction, signature
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.plugin import Transformation
from fencepost.api.plugin_calls import kind_of
from fencepost.transforms.declared_function import DeclaredFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fencepost.transforms.function_rows import FunctionRows

PARTS: Final = ("value", "key", "record")
FORMS: Final = ("pyarrow", "pandas", "polars")
_RECORD: Final = ("topic", "partition", "key", "value", "timestamp", "headers")
_EXPECTED: Final = "it takes a function(rows) that returns rows, both as pyarrow.RecordBatch, or of pandas or polars"


def transform(
    *, schema: str, on: str = "value", multiplies: bool = False
) -> Callable[[Callable[..., Any]], type[Transformation]]:
    """Make a transform from a function that takes and returns columns.

    The function gets the fields of the values as columns (with `on="key"` the fields of the keys), and a column `__row`
    with the positions of the rows. Records whose value is null are not passed to it, and stay unchanged. It returns the
    columns that `schema` lists, in Spark's DDL, for each row in order. If it drops rows, it also returns `__row` for
    the remaining rows. With `multiplies=True`, the same `__row` may also occur several times. With `on="record"` the
    function gets the columns topic, partition, key, value, timestamp and headers, and returns the columns that `schema`
    lists; the other columns stay unchanged. The annotation of the function's parameter decides the form of the rows: a
    pyarrow.RecordBatch, a DataFrame of pandas, whose index replaces `__row`, or a DataFrame of polars.

    The function is called on Spark's executors or in the worker. The rows may be split in any way, and may be passed
    again, so the function must not keep state. Raises TypeError for anything but such a function, and ConfigError for
    an invalid schema.
    """

    def made(function: Callable[..., Any]) -> type[Transformation]:
        from fencepost.api.ddl import parse_columns, parse_ddl  # noqa: PLC0415 - see above
        from fencepost.api.fitted_columns import check_columns  # noqa: PLC0415 - see above

        _check(function, on)
        kind = parse_columns(schema) if on == "record" else parse_ddl(schema)
        check_columns(kind, f"The schema {schema!r} of the function {function.__qualname__}")
        if on == "record" and (unknown := [name for name in kind.fieldNames() if name not in _RECORD]):  # type: ignore[attr-defined]
            raise ConfigError(
                f"A record has no columns {', '.join(unknown)}; it has {', '.join(_RECORD)}", name="schema"
            )
        attributes = {
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "__doc__": function.__doc__,
            "function": staticmethod(function),
            "schema": schema,
            "on": on,
            "multiplies": multiplies,
            "form": _form(function),
        }
        return type(function.__name__, (FunctionTransformation,), attributes)

    return made


class FunctionTransformation(DeclaredFunction, Transformation):
    """The base of the classes that `transform` makes."""

    def config(self) -> ConfigDef:
        """Return an empty ConfigDef: such transforms have no properties."""
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Do nothing."""

    def apply(self, records: DataFrame) -> DataFrame:
        """Return the records after the function was called on executors."""
        from fencepost.transforms.function_rows import applied_frame  # noqa: PLC0415 - see above

        return applied_frame(self.rows(), records)

    def rows(self) -> FunctionRows:
        """Return the object that calls the function on Arrow batches."""
        from fencepost.transforms.function_rows import FunctionRows  # noqa: PLC0415 - see above

        return FunctionRows(type(self))


def _check(function: Any, on: str) -> None:
    if on not in PARTS:
        raise TypeError(f"transform(on={on!r}): there are {', '.join(PARTS)}")
    if not isfunction(function):
        raise TypeError(f"transform() was given {kind_of(function)}: {_EXPECTED}")
    if iscoroutinefunction(function) or isgeneratorfunction(function):
        raise TypeError(f"transform() was given {function.__qualname__}: {_EXPECTED}, without async and yield")
    try:
        signature(function).bind(None)
    except TypeError as error:
        raise TypeError(
            f"transform() was given {function.__qualname__}{signature(function)}: {_EXPECTED} ({error})"
        ) from None


def _form(function: Callable[..., Any]) -> str:
    """Return the form in which a function receives rows, by the annotation of its parameter, which may be a text."""
    annotation = next(iter(signature(function).parameters.values())).annotation
    named = annotation if isinstance(annotation, str) else f"{annotation.__module__}.{annotation.__qualname__}"
    root = named.strip("'\"").partition(".")[0]
    module = getattr(function.__globals__.get(root), "__name__", root).partition(".")[0]
    return module if module in FORMS else FORMS[0]
