"""A connector that defines none of its properties."""

from __future__ import annotations

from fencepost import SourceConnector, SourceTask


class BareConnector(SourceConnector):
    def task_class(self) -> type[SourceTask]:
        raise AssertionError
