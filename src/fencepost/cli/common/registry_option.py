"""The options of commands that read records by a schema registry: its address, or a connector that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fencepost.config.connector_config import below
from fencepost.config.properties import load_connector_config
from fencepost.converters.registry.reading import RegistryReader, names_registry
from fencepost.converters.registry.settings import URL

_F = TypeVar("_F", bound=Callable[..., Any])

REGISTRY_URL: Final = "--schema-registry-url"
CONNECTOR_CONFIG: Final = "--connector-config"


@dataclass(frozen=True, slots=True)
class RoleReading:
    """By what keys or values are read: a converter's name, None if it is unknown, and a registry if there is one."""

    converter: str | None = None
    registry: RegistryReader | None = None


@dataclass(frozen=True, slots=True)
class RecordReading:
    """By what records are read."""

    key: RoleReading = RoleReading()
    value: RoleReading = RoleReading()


NO_READING: Final = RecordReading()
"""Without the options."""


def asks_registry(command: _F) -> _F:
    """Add the options to a command, as `schema_registry_url` and `connector_config`."""
    url = click.option(
        REGISTRY_URL,
        metavar="URL",
        help="Decode by the schemas of this registry: http://[user:password@]host:port, several with commas between.",
    )
    config = click.option(
        CONNECTOR_CONFIG,
        metavar="FILE.{properties,json}",
        type=click.Path(path_type=Path),
        help="Decode by the converters of this connector, and by its schema registry with its login.",
    )
    return config(url(command))


@contextmanager
def record_reading(
    url: str | None, connector_config: Path | None, *, for_people: bool = True
) -> Iterator[RecordReading]:
    """Yield what the options say. Raises ConfigError for an address that is none, and UsageError for both options."""
    if url is not None and connector_config is not None:
        raise click.UsageError(f"Give {REGISTRY_URL} or {CONNECTOR_CONFIG}, not both")
    with ExitStack() as opened:

        def reader(properties: Mapping[str, str]) -> RegistryReader:
            found = RegistryReader(properties, for_people=for_people)
            opened.callback(found.close)
            return found

        if url is not None:
            both = RoleReading(registry=reader({URL: url}))
            yield RecordReading(both, both)
        elif connector_config is not None:
            config = load_connector_config(connector_config)
            yield RecordReading(*(_of_role(config, f"{role}.converter", reader) for role in ("key", "value")))
        else:
            yield NO_READING


def _of_role(
    config: Mapping[str, str], name: str, reader: Callable[[Mapping[str, str]], RegistryReader]
) -> RoleReading:
    own = below(config, f"{name}.")
    return RoleReading(config.get(name), reader(own) if names_registry(own) else None)
