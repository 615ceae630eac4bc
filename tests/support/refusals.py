"""Shows whether a check accepts its arguments, for tests that expect that it does."""

from collections.abc import Callable
from typing import Any

from fencepost.api.errors import FencepostError


def refusal(check: Callable[..., object], *args: Any, **kwargs: Any) -> FencepostError | None:
    """Return the error with which a check refuses its arguments, None if it accepts them."""
    try:
        check(*args, **kwargs)
    except FencepostError as error:
        return error
    return None
