"""A function on columns, declared with the decorator `transform`. See `function_transform`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

ROW_INDEX: Final = "__row"
"""The column with the positions of rows. A function that drops or repeats rows must return it."""


class DeclaredFunction:
    """The arguments of the decorator, and the form in which the function receives rows."""

    function: ClassVar[Callable[..., Any]]
    schema: ClassVar[str]
    on: ClassVar[str]
    multiplies: ClassVar[bool]
    form: ClassVar[str]
