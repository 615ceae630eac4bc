"""The creation of topics in a worker of a check, which ends before a creation or after it, and never meanwhile.

Brokers carry a request out that they have received, also if its sender is gone. The check deletes its topics once its
workers have ended, so no creation may be on its way then.
"""

from __future__ import annotations

import os
import threading
from typing import Final, NoReturn

from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.admin.topic_creation import NewTopic
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig

_CREATING: Final = threading.Lock()


class AwaitedAdmin(Admin):
    """An admin client whose creations the end of the process waits for."""

    def create_topics(self, *topics: NewTopic) -> dict[str, bool]:
        """Create topics. Raises as Admin."""
        with _CREATING:
            return super().create_topics(*topics)


class AwaitedClients(KafkaClients):
    """Kafka clients whose admins are AwaitedAdmin."""

    def admin(self, config: ClientConfig) -> Admin:
        """Return a client that creates topics."""
        return AwaitedAdmin(config)


def end_process(code: int) -> NoReturn:
    """End this process once no creation is in flight, whatever its threads do."""
    with _CREATING:
        os._exit(code)
