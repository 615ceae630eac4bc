"""The schemas that a schema of the registry refers to."""

from __future__ import annotations

from typing import Final

from fencepost.converters.registry.client import RegistryClient
from fencepost.converters.registry.errors import RegistryAnswerError
from fencepost.converters.registry.schemas import RegistrySchema

_MAX_SCHEMAS: Final = 1_000
"""The maximum number of schemas that one schema may refer to, directly or indirectly."""


def referred_schemas(client: RegistryClient, schema: RegistrySchema) -> dict[str, RegistrySchema]:
    """Return the schemas that a schema refers to, by the names of the references. Each comes after its own references.

    Raises the errors of `RegistryClient`, and RegistryAnswerError for schemas that refer to themselves, or to too many
    others.
    """
    found: dict[str, RegistrySchema] = {}
    _collect(client, schema, found, ())
    return found


def _collect(
    client: RegistryClient, schema: RegistrySchema, found: dict[str, RegistrySchema], around: tuple[str, ...]
) -> None:
    for reference in schema.references:
        if reference.name in around or len(found) + len(around) >= _MAX_SCHEMAS:
            raise RegistryAnswerError(
                f"The schema in the registry refers to {reference.name} (version {reference.version} of subject "
                f"{reference.subject}), which refers to itself or is one of more than {_MAX_SCHEMAS}: correct its references"
            )
        if reference.name not in found:
            part = client.version_of(reference.subject, reference.version).schema
            _collect(client, part, found, (*around, reference.name))
            found[reference.name] = part
