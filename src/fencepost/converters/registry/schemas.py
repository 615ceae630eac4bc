"""Schemas in a registry, with the registry's metadata. All classes are plain data, and can be pickled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another schema refers to by `name`: a version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegistrySchema:
    """A schema's text, and its type as registries call it: AVRO, PROTOBUF or JSON."""

    text: str
    type: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema in a registry. `version` is 0 and `guid` empty if the registry did not give them."""

    id: int
    schema: RegistrySchema
    version: int = 0
    guid: bytes = b""
