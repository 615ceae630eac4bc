"""Sets offsets of a file connector as a worker does for a user, without storing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.validation_context import ValidationContext
from fencepost.connectors.files.connector import FileSourceConnector
from tests.unit.connectors.support import WholeOffsets


def connector(
    config: Mapping[str, str], stored: Mapping[str, Any] | None = None, allowed: AllowedPaths = ANYWHERE
) -> ConnectorInstance:
    """A connector that is not started. `stored` are its committed offsets by path."""
    instance = ConnectorInstance(FileSourceConnector(), "c")
    instance.set_context(ValidationContext(config, allowed, WholeOffsets(stored)))  # type: ignore[arg-type]
    return instance


def alter(
    config: Mapping[str, str],
    offsets: Mapping[str, dict[str, Any] | None],
    stored: Mapping[str, Any] | None = None,
    allowed: AllowedPaths = ANYWHERE,
) -> bool:
    """Whether the connector takes the offsets; it raises DataError if it refuses them."""
    pairs = [({"filename": path}, offset) for path, offset in offsets.items()]
    return connector(config, stored, allowed).alter_offsets(config, pairs)
