"""The options of commands that decode records with a schema registry: its address, or a connector that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fencepost.config.properties import load_connector_config
from fencepost.converters.record_reading import (
    NO_READING,
    RecordReading,
    RoleReading,
    reading_by,
    registry_readers,
)
from fencepost.converters.registry.settings import URL

_F = TypeVar("_F", bound=Callable[..., Any])

REGISTRY_URL: Final = "--schema-registry-url"
CONNECTOR_CONFIG: Final = "--connector-config"


def asks_registry(command: _F) -> _F:
    """Add the options to a command, as `schema_registry_url` and `connector_config`."""
    url = click.option(
        REGISTRY_URL,
        metavar="URL",
        help="Decode records with schemas of this schema registry: http://[user:password@]host:port; several "
        "addresses, comma-separated.",
    )
    config = click.option(
        CONNECTOR_CONFIG,
        metavar="FILE.{properties,json}",
        type=click.Path(path_type=Path),
        help="Decode records with the converters of this connector's configuration file, and with its schema registry "
        "and login.",
    )
    return config(url(command))


@contextmanager
def record_reading(
    url: str | None, connector_config: Path | None, *, for_people: bool = True
) -> Iterator[RecordReading]:
    """Yield the RecordReading for these options, which decodes keys and values.

    Raises ConfigError for an invalid address, UsageError if both options are given.
    """
    if url is not None and connector_config is not None:
        raise click.UsageError(f"Give {REGISTRY_URL} or {CONNECTOR_CONFIG}, not both")
    if connector_config is not None:
        with reading_by(load_connector_config(connector_config), for_people=for_people) as reading:
            yield reading
    elif url is not None:
        with registry_readers(for_people=for_people) as reader:
            both = RoleReading(registry=reader({URL: url}))
            yield RecordReading(both, both)
    else:
        yield NO_READING
