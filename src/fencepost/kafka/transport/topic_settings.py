"""The settings of topics that limit what is written to them: DescribeConfigs (https://kafka.apache.org/protocol)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest

from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import UnsupportedBrokerError
from fencepost.kafka.transport.error_codes import Code

_TOPIC_RESOURCE: Final = 2
_MESSAGE_BYTES: Final = "max.message.bytes"
DISKLESS: Final = "diskless.enable"
"""The topic setting that makes a topic diskless (KIP-1150)."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """`message_bytes` is `max.message.bytes`; None if the principal may not describe a topic's settings.

    A topic that is known to be `diskless` (KIP-1150) does not accept transactional records.
    """

    message_bytes: int | None
    diskless: bool


def ask_settings(
    ask: Callable[[Any, Deadline], Any], topics: Sequence[str], deadline: Deadline
) -> dict[str, TopicSettings]:
    """Return the settings of topics. Settings that the brokers do not show are unknown.

    `ask` sends a request to any broker.

    Raises the errors of `ask`, except for UnsupportedBrokerError.
    """
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=[_MESSAGE_BYTES, DISKLESS]
        )
        for topic in topics
    ]
    shown: dict[str, dict[str, str | None]] = {}
    try:
        answer = ask(DescribeConfigsRequest(resources=resources), deadline)
    except UnsupportedBrokerError:
        pass
    else:
        for result in answer.results:
            if result.error_code == Code.NONE:
                shown[result.resource_name] = {entry.name: entry.value for entry in result.configs}
    return {topic: _settings(shown.get(topic, {})) for topic in topics}


def _settings(values: Mapping[str, str | None]) -> TopicSettings:
    limit = values.get(_MESSAGE_BYTES)
    return TopicSettings(None if limit is None else int(limit), values.get(DISKLESS) == "true")
