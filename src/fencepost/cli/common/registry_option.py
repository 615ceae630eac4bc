"""The option --schema-registry-url of commands that read records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from fencepost.converters.registry.reading import RegistryReader
from fencepost.converters.registry.settings import URL

_F = TypeVar("_F", bound=Callable[..., Any])

REGISTRY_URL: Final = "--schema-registry-url"


def asks_registry(command: _F) -> _F:
    """Add the option to a command, as `schema_registry_url`."""
    option = click.option(
        REGISTRY_URL,
        metavar="URL",
        help="Decode Avro by this schema registry: http://[user:password@]host:port, several with commas between.",
    )
    return option(command)


@contextmanager
def registry_reader(url: str | None, *, for_people: bool = True) -> Iterator[RegistryReader | None]:
    """Yield a reader by the registry, None without an address. Raises ConfigError for an invalid address."""
    if url is None:
        yield None
        return
    reader = RegistryReader({URL: url}, for_people=for_people)
    try:
        yield reader
    finally:
        reader.close()
