"""The errors between a converter and its schema registry.

    RegistryError                  a registry cannot be used as configured, or refuses a schema: the task fails
    ├── RegistryRefusedError       the registry refused a schema (409, 422 and other answers of 4xx)
    ├── RegistryAccessError        the registry refused the login (401) or the right to do this (403)
    ├── RegistryMissingError       the registry has no such subject, version or schema (404)
    └── RegistryAnswerError        the answer does not come from a registry
    RegistryUnavailableError       a RetriableError: the registry does not answer, or is busy (408, 429, 5xx)

None of these errors is an error of a record, so `errors.tolerance` does not apply to them.
"""

from __future__ import annotations

from fencepost.api.errors import FencepostError, RetriableError


class RegistryError(FencepostError):
    """A schema registry cannot be used as configured, or refuses a converter's request."""


class RegistryAnsweredError(RegistryError):
    """The registry answered with an error: `status` is the HTTP status, `code` and `reason` are the registry's own."""

    def __init__(self, message: str, *, status: int = 0, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.reason = reason


class RegistryRefusedError(RegistryAnsweredError):
    """The registry refused a schema."""


class RegistryAccessError(RegistryAnsweredError):
    """The registry refused the login, or the right to do something."""


class RegistryMissingError(RegistryAnsweredError):
    """The registry does not have a subject, version or schema."""


class RegistryAnswerError(RegistryError):
    """The answer does not come from a schema registry."""


class RegistryUnavailableError(RetriableError):
    """No registry answered, or all that answered are busy."""
