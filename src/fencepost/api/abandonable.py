"""Connectors and tasks whose code runs elsewhere, so that the worker can end a start or stop that does not return."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Abandonable(ABC):
    """A SourceConnector or SourceTask that can end its own code when the worker gives it up."""

    @abstractmethod
    def abandon(self) -> None:
        """End the code of a call of `start` or `stop` that has not returned. That call then raises an error.

        This method may be called on any thread.
        """
