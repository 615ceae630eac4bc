"""What a worker as a whole may end with."""

from __future__ import annotations

from fencepost.api.errors import FencepostError


class ConnectorsFailedError(FencepostError):
    """Connectors or tasks failed, and nothing is left that this worker could do."""
