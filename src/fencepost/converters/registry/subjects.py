"""The names of subjects. Under a subject, a registry keeps the versions of the schemas of a topic's keys or values."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.converters.registry.errors import RegistryError
from fencepost.converters.registry.registry import Registry

_log: Final = logging.getLogger(__name__)

STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy", "AssociatedNameStrategy")
_FALLBACKS: Final[Mapping[str, str]] = {
    "TOPIC": "TopicNameStrategy",
    "RECORD": "RecordNameStrategy",
    "TOPIC_RECORD": "TopicRecordNameStrategy",
}


@dataclass(frozen=True, slots=True)
class Subjects:
    """Names the subjects of one `role`: key, value or header.

    `fallback`, one of _FALLBACKS, is how AssociatedNameStrategy names a subject that the registry does not associate.
    """

    role: str
    strategy: str = "TopicNameStrategy"
    fallback: str = "TOPIC"
    namespace: str = "-"
    context: str | None = None

    def name(self, topic: str, record_name: str | None, kind: str, registry: Registry) -> str:
        """Return the subject of a schema. `record_name` is the schema's own name, if any; `kind` is its type.

        Headers have a subject for each type, because their types differ from record to record. Raises RegistryError if
        the strategy needs a schema with a name, and the errors of the `registry` if it is asked.
        """
        subject = (
            f"{topic}-header-{record_name or kind}"
            if self.role == "header"
            else self._name(topic, record_name, registry)
        )
        return subject if self.context is None else f":{self.context}:{subject}"

    def _name(self, topic: str, record_name: str | None, registry: Registry) -> str:
        strategy = self.strategy
        if strategy == "AssociatedNameStrategy":
            found = registry.associated_subjects(topic, self.role, self.namespace)
            if len(found) > 1:
                raise RegistryError(
                    f"The registry associates {len(found)} subjects with the {self.role}s of topic {topic}: remove all "
                    "associations but one"
                )
            if found:
                return found[0]
            if self.fallback not in _FALLBACKS:
                raise RegistryError(
                    f"The registry associates no subject with the {self.role}s of topic {topic}: add an association, or set "
                    "subject.name.strategy.fallback.type=TOPIC"
                )
            strategy = _FALLBACKS[self.fallback]
        if strategy == "TopicNameStrategy":
            return f"{topic}-{self.role}"
        if record_name is None:
            raise RegistryError(
                f"{strategy} names the subject of the {self.role}s of topic {topic} after their schema, which has no name: "
                f"only records have one. Use {self.role}.subject.name.strategy=TopicNameStrategy"
            )
        return record_name if strategy == "RecordNameStrategy" else f"{topic}-{record_name}"
