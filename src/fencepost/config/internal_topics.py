"""The topics in which a worker keeps its state: their properties, and the values of these properties."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.topic_names import topic_name
from fencepost.config.validators import at_least, not_blank, replication_factor

_log: Final = logging.getLogger(__name__)

_T = ConfigDef.Type
_I = ConfigDef.Importance
_REQUIRED: Final = ConfigDef.NO_DEFAULT

STANDALONE_GROUP: Final = "connect-standalone"
"""The default group of a standalone worker."""

# The name of a standalone worker's topic is its group and one of these endings. The group must be in the name because
# source offsets and task counts are stored under the names of connectors only: two groups must not share a topic.
STORES: Final = {"offset": "offsets", "config": "configs", "status": "status"}
AUTOMATIC_CREATION: Final = "internal.topics.automatic.creation.enable"
"""The property, introduced by KIP-1209, that says whether workers create these topics."""
_STORE_PROPERTIES: Final = ("topic", "partitions", "replication.factor")


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """One of the worker's own topics. `replication_factor` None means 3, or 1 in a cluster of one broker."""

    name: str
    partitions: int
    replication_factor: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """Topic settings. `cleanup.policy` is always `compact`, whatever the settings say."""
    created: bool = True
    """Whether workers create the topic if it is missing."""


def define_internal_topics(definitions: ConfigDef, *, alone: bool) -> None:
    """Define the properties. A standalone worker (`alone`) has defaults for the names of the topics."""
    partitions = {"offset": 25, "config": 1, "status": 5}
    purpose = {"offset": "source offsets", "config": "configurations", "status": "states"}
    for store, ending in STORES.items():
        definitions.define(
            f"{store}.storage.topic",
            _T.STRING,
            f"{STANDALONE_GROUP}-{ending}" if alone else _REQUIRED,
            _I.HIGH,
            f"The compacted topic that holds the {purpose[store]} of connectors and tasks. It is created if missing. Two "
            f"groups need different topics; unset, a standalone worker takes its group.id with `-{ending}`.",
            validator=not_blank,
        )
        definitions.define(
            f"{store}.storage.replication.factor",
            _T.SHORT,
            None,
            _I.LOW,
            f"The number of replicas with which the topic of {purpose[store]} is created, -1 for the broker's "
            "default. Unset: 3, or 1 in a cluster with a single broker.",
            validator=replication_factor,
        )
        if store != "config":
            definitions.define(
                f"{store}.storage.partitions", _T.INT, partitions[store], _I.LOW,
                f"The number of partitions with which the topic of {purpose[store]} is created.",
                validator=at_least(1),
            )  # fmt: skip
    definitions.define(
        AUTOMATIC_CREATION, _T.BOOLEAN, True, _I.LOW,
        "Whether workers create their own topics (offset.storage.topic, config.storage.topic, status.storage.topic) "
        "and the offsets topics of connectors if they are missing. If false, a worker or connector does not start "
        "until its topics exist; `fencepost topics create` creates them.",
    )  # fmt: skip


def internal_topic(store: str, values: Mapping[str, Any], properties: Mapping[str, str]) -> InternalTopic:
    """Return the topic of a store. Raises ConfigError if a standalone worker has no name for it."""
    prefix = f"{store}.storage."
    known = {prefix + name for name in _STORE_PROPERTIES}
    settings = {
        name.removeprefix(prefix): value
        for name, value in properties.items()
        if name.startswith(prefix) and name not in known
    }
    if settings.get("cleanup.policy", "compact") != "compact":
        _log.warning("The property %scleanup.policy is ignored: the topic must be compacted", prefix)
    return InternalTopic(
        values[f"{prefix}topic"] if f"{prefix}topic" in properties else _standalone_topic(store, values["group.id"]),
        values.get(f"{prefix}partitions", 1),
        values[f"{prefix}replication.factor"],
        MappingProxyType(settings | {"cleanup.policy": "compact"}),
        values[AUTOMATIC_CREATION],
    )


def _standalone_topic(store: str, group_id: str) -> str:
    name = f"{group_id.strip()}-{STORES[store]}"
    try:
        topic_name(f"{store}.storage.topic", name)
    except ConfigError as error:
        raise ConfigError(
            f"{store}.storage.topic is unset, and group.id={group_id} is not usable as a part of its name: {error}",
            name=error.name,
        ) from None
    return name
