"""The schemas that a schema of the registry refers to."""

from __future__ import annotations

from typing import Final

from fencepost.converters.registry.client import RegistryClient
from fencepost.converters.registry.errors import RegistryAnswerError
from fencepost.converters.registry.schemas import RegistrySchema

_MOST: Final = 1_000
"""The maximum number of schemas that one may refer to, directly or not."""


def referred_schemas(client: RegistryClient, schema: RegistrySchema) -> dict[str, RegistrySchema]:
    """Return the schemas that one refers to, by the names of the references, each after those that it refers to itself.

    Raises as RegistryClient, and RegistryAnswerError for schemas that refer to themselves, or to too many.
    """
    found: dict[str, RegistrySchema] = {}
    _collect(client, schema, found, ())
    return found


def _collect(
    client: RegistryClient, schema: RegistrySchema, found: dict[str, RegistrySchema], around: tuple[str, ...]
) -> None:
    for reference in schema.references:
        if reference.name in around or len(found) + len(around) >= _MOST:
            raise RegistryAnswerError(
                f"The schema in the registry refers to {reference.name} (version {reference.version} of subject "
                f"{reference.subject}), which refers to itself or is one of more than {_MOST}: correct its references"
            )
        if reference.name not in found:
            part = client.version_of(reference.subject, reference.version).schema
            _collect(client, part, found, (*around, reference.name))
            found[reference.name] = part
