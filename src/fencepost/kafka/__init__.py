"""Everything that talks to a Kafka cluster. The names here are for whoever administers one; the rest is in modules."""

from fencepost.kafka.admin import Admin, NewTopic, TopicDescription
from fencepost.kafka.client_config import ClientConfig
from fencepost.kafka.fencing import FencedProducer, FenceProducersResult, FencingError, FencingTimeoutError

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
