"""A function on columns, as the decorator `transform` declares it. See `function_transform`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

ROW_INDEX: Final = "__row"
"""The column with the positions of rows. A function that drops or multiplies rows returns it with its result."""


class DeclaredFunction:
    """The arguments of the decorator, and the form in which the function wants rows."""

    function: ClassVar[Callable[..., Any]]
    schema: ClassVar[str]
    on: ClassVar[str]
    multiplies: ClassVar[bool]
    form: ClassVar[str]
