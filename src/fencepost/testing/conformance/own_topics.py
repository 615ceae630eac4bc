"""Topics that belong to a check, and are used instead of the topics that a connector names.

    orders               ->  fencepost-test-1a2b3c4d-orders       records, dead letters, offsets.storage.topic
    internal topics      ->  fencepost-test-1a2b3c4d.offsets      the worker's offsets; likewise its config topic

A worker puts the prefix in front of a topic's name when the topic's records are converted: after all transforms, in the
worker and on executors (`Pipeline.destination`). The new topic gets as many partitions as the original.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from fencepost.api.errors import ConfigError, FencepostError

if TYPE_CHECKING:
    from fencepost.kafka.admin.admin import Admin

_log: Final = logging.getLogger(__name__)

_OFFSETS: Final = "offsets.storage.topic"
_OTHER_CLUSTER: Final = ".override.bootstrap.servers"


def _new_run() -> str:
    return f"fencepost-test-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True)
class OwnTopics:
    """The topics of one run of checks. Use it in a `with` statement: the topics are deleted at the end of the block."""

    bootstrap_servers: str
    run: str = field(default_factory=_new_run)
    """The prefix of all names. It is also the group id of the workers."""

    @property
    def prefix(self) -> str:
        """The prefix of the names of topics with records."""
        return f"{self.run}-"

    def internal(self, store: str) -> str:
        """Return the name of a worker's internal topic. No topic with records can have this name."""
        return f"{self.run}.{store}"

    def original(self, own: str) -> str:
        """Return the original name of one of these topics."""
        return own.removeprefix(self.prefix)

    def redirected(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return a connector's configuration in which a separate offsets topic is replaced by one of these topics.

        Raises ConfigError if the connector names its own brokers.
        """
        for name in config:
            if name.endswith(_OTHER_CLUSTER):
                raise ConfigError(
                    f"The connector's property {name} names brokers of its own, where its topics cannot be replaced by "
                    "topics of the check, so nothing is written. Remove the property for the check",
                    name=name,
                )
        offsets = {_OFFSETS: self.prefix + config[_OFFSETS]} if config.get(_OFFSETS) else {}
        return {**config, **offsets}

    def written(self, config: Mapping[str, str]) -> list[str]:
        """Return the existing topics with records, including dead letters."""
        with self._admin() as admin:
            names = admin.topic_names()
        return sorted(name for name in names - {config.get(_OFFSETS)} if name.startswith(self.prefix))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with self._admin() as admin:
                admin.delete_topics(*self._all(admin.topic_names()))
        except BaseException as failure:
            _log.warning(
                "Topics of the checks are left on %s: those whose names begin with %s. Delete them. %s",
                self.bootstrap_servers, self.run, failure,
            )  # fmt: skip
            if not isinstance(failure, FencepostError):
                raise

    def _all(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name.startswith((self.prefix, self.internal("")))]

    def _admin(self) -> Admin:
        # Importing a Kafka client takes a second, and pytest imports this module in each of its runs.
        from fencepost.kafka.admin.admin import Admin  # noqa: PLC0415 - see above
        from fencepost.kafka.config.client_config import ClientConfig  # noqa: PLC0415 - see above

        return Admin(
            ClientConfig.from_properties({"bootstrap.servers": self.bootstrap_servers}, where="fencepost test")
        )
