"""The creation of topics in a worker that a check runs.

The process never ends while a topic is being created.

A broker carries out a request that it has received even if the sender has ended. The check deletes its topics after its
workers have ended, so no request for a creation may be under way then.
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
    """An admin client. `end_process` waits until its creations of topics are complete."""

    def create_topics(self, *topics: NewTopic) -> dict[str, bool]:
        """Create topics. Raises the errors of `Admin.create_topics`."""
        with _CREATING:
            return super().create_topics(*topics)


class AwaitedClients(KafkaClients):
    """Creates Kafka clients. Its admin clients are AwaitedAdmin."""

    def admin(self, config: ClientConfig) -> Admin:
        """Return a client that creates topics."""
        return AwaitedAdmin(config)


def end_process(code: int) -> NoReturn:
    """End this process as soon as no creation is in progress, whatever the process's threads are doing."""
    with _CREATING:
        os._exit(code)
