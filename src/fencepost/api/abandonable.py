"""Connectors and tasks whose code runs elsewhere, so that a start or stop that does not return can be ended."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Abandonable(ABC):
    """A SourceConnector or SourceTask that ends its own code where the worker gives it up."""

    @abstractmethod
    def abandon(self) -> None:
        """End the code of `start` or `stop` if that has not returned; it raises an error then. Called on any thread."""
