"""All communication with a Kafka cluster. The names here are for administration; the rest is in modules."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fencepost.kafka.admin.admin import Admin, TopicDescription
    from fencepost.kafka.admin.fencing import FencedProducer, FenceProducersResult, FencingError, FencingTimeoutError
    from fencepost.kafka.admin.topic_creation import NewTopic
    from fencepost.kafka.config.client_config import ClientConfig

__all__ = [
    "Admin",
    "ClientConfig",
    "FenceProducersResult",
    "FencedProducer",
    "FencingError",
    "FencingTimeoutError",
    "NewTopic",
    "TopicDescription",
]

_MODULES: Final = {
    "Admin": "admin.admin",
    "ClientConfig": "config.client_config",
    "FenceProducersResult": "admin.fencing",
    "FencedProducer": "admin.fencing",
    "FencingError": "admin.fencing",
    "FencingTimeoutError": "admin.fencing",
    "NewTopic": "admin.admin",
    "TopicDescription": "admin.admin",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use: most modules need none of them, and the client behind them is slow to import."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
