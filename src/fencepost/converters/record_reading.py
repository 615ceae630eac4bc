"""How the records of a connector are decoded: by its converters and their schema registries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from fencepost.config.properties import below
from fencepost.converters.record_decoding import RecordDecoder
from fencepost.converters.registry.reading import RegistryReader, names_registry

_AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class RoleReading:
    """How keys or values are decoded: the name of a converter, None if unknown, and a registry if there is one."""

    converter: str | None = None
    registry: RegistryReader | None = None

    def decoder(self, converter: str | None = None, *, is_key: bool) -> RecordDecoder:
        """Return the decoder of this role's converter, or of `converter` if it is given.

        Raises ConfigError as RecordDecoder does.
        """
        return RecordDecoder(converter or self.converter or _AUTO, self.registry, is_key=is_key)


@dataclass(frozen=True, slots=True)
class RecordReading:
    """How the keys and the values of records are decoded."""

    key: RoleReading = RoleReading()
    value: RoleReading = RoleReading()


NO_READING: Final = RecordReading()
"""How records are decoded if their converters are unknown."""


@contextmanager
def registry_readers(*, for_people: bool = True) -> Iterator[Callable[[Mapping[str, str]], RegistryReader]]:
    """Yield a function that makes a reader from a converter's properties, given without prefix.

    Closes the readers at the end.
    """
    with ExitStack() as opened:

        def reader(properties: Mapping[str, str]) -> RegistryReader:
            found = RegistryReader(properties, for_people=for_people)
            opened.callback(found.close)
            return found

        yield reader


@contextmanager
def reading_by(config: Mapping[str, str], *, for_people: bool = True) -> Iterator[RecordReading]:
    """Yield the decoding by the converters in a connector's configuration. Raises ConfigError for wrong settings."""
    with registry_readers(for_people=for_people) as reader:
        yield RecordReading(*(_of_role(config, f"{role}.converter", reader) for role in ("key", "value")))


def _of_role(
    config: Mapping[str, str], name: str, reader: Callable[[Mapping[str, str]], RegistryReader]
) -> RoleReading:
    own = below(config, f"{name}.")
    return RoleReading(config.get(name), reader(own) if names_registry(own) else None)
