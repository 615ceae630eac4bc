"""A schema registry, shared by all converters of a process: each id is requested only once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, TypeVar

from fencepost.converters.registry.client import RegistryClient
from fencepost.converters.registry.errors import (
    RegistryAnswerError,
    RegistryError,
    RegistryMissingError,
    RegistryRefusedError,
)
from fencepost.converters.registry.schemas import Registered, RegistrySchema
from fencepost.converters.registry.settings import RegistrySettings

T = TypeVar("T")


class Registry:
    """A registry, with a cache of the ids that it assigned.

    Thread-safe. While one thread waits for an answer, other threads that need an answer wait, too.
    """

    def __init__(self, client: RegistryClient) -> None:
        self.client = client
        self._lock = threading.Lock()
        self._known: dict[tuple[object, ...], Registered] = {}
        self._schemas: dict[int, RegistrySchema] = {}
        self._latest: dict[str, tuple[Registered, float]] = {}
        self._associated: dict[tuple[str, str, str], tuple[str, ...]] = {}

    def registered(self, subject: str, schema: RegistrySchema, *, normalize: bool) -> Registered:
        """Register a schema once.

        Raises the errors of `RegistryClient`, and RegistryAnswerError if the registry returns another schema's id.
        """
        key = ("register", subject, schema, normalize)
        return self._once(key, lambda: self._register(subject, schema, normalize=normalize), own=not normalize)

    def looked_up(self, subject: str, schema: RegistrySchema, *, normalize: bool) -> Registered:
        """Look up a schema once. Raises the errors of `registered`."""
        key = ("look up", subject, schema, normalize)
        return self._once(key, lambda: self.client.look_up(subject, schema, normalize=normalize), own=not normalize)

    def latest(self, subject: str, lifetime_s: int) -> tuple[Registered, float | None]:
        """Return a subject's newest schema, at most `lifetime_s` seconds old (-1: any age), and until when it is valid.

        Raises the errors of `RegistryClient`.
        """
        with self._lock:
            known = self._latest.get(subject)
            if known is None or (lifetime_s >= 0 and time.monotonic() >= known[1] + lifetime_s):
                known = self._latest[subject] = self.client.latest(subject), time.monotonic()
        found, asked = known
        return found, None if lifetime_s < 0 else asked + lifetime_s

    def associated_subjects(self, topic: str, role: str, namespace: str) -> tuple[str, ...]:
        """Return the subjects associated with a topic's keys or values. Raises the errors of `RegistryClient`."""
        key = topic, role, namespace
        with self._lock:
            if key not in self._associated:
                self._associated[key] = tuple(self.client.associated_subjects(*key))
            return self._associated[key]

    def fixed(self, schema_id: int, subject: str) -> Registered:
        """Return the schema with an id. Raises the errors of `RegistryClient`."""
        return self._once(("id", schema_id), lambda: self.client.by_id(schema_id, subject), own=True)

    def fixed_guid(self, guid: str) -> Registered:
        """Return the schema with a GUID. Raises the errors of `RegistryClient`."""
        return self._once(("guid", guid), lambda: self.client.by_guid(guid), own=False)

    def _register(self, subject: str, schema: RegistrySchema, *, normalize: bool) -> Registered:
        """Register a schema.

        Apicurio refuses this with 409 if another worker registers the same schema at the same time. Then look it up.
        """
        try:
            return self.client.register(subject, schema, normalize=normalize)
        except RegistryRefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            try:
                return self.client.look_up(subject, schema, normalize=normalize)
            except RegistryMissingError:
                return self.client.register(subject, schema, normalize=normalize)
            except RegistryError:
                pass
            raise

    def _once(self, key: tuple[object, ...], ask: Callable[[], Registered], *, own: bool) -> Registered:
        found = self._known.get(key)
        if found is not None:
            return found
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = ask()
                if own:
                    self._check(found)
                self._known[key] = found
        return found

    def _check(self, found: Registered) -> None:
        """Refuse an id that was assigned to another schema: records would be read with the wrong schema."""
        known = self._schemas.setdefault(found.id, found.schema)
        if _content(known) != _content(found.schema):
            raise RegistryAnswerError(
                f"The schema registry {self.client.address} gave the id {found.id} to two schemas, so that readers would "
                "read records with the wrong one. Nothing was written: ask who runs the registry"
            )


def _content(schema: RegistrySchema) -> object:
    """Return the part of a schema's text that matters to readers, which depends on the schema's type."""
    return CONTENT.get(schema.type, _text)(schema)


def _text(schema: RegistrySchema) -> object:
    return schema.text


CONTENT: Final[dict[str, Callable[[RegistrySchema], object]]] = {}
"""For each type of schema, a function whose result is equal for schemas that readers treat alike.

For other types, the result is the schema's text.
"""

_registries: dict[RegistrySettings, Registry] = {}
_lock = threading.Lock()


def shared_registry(settings: RegistrySettings) -> Registry:
    """Return this process's registry for some settings. Raises ConfigError if the settings cannot work at all."""
    with _lock:
        found = _registries.get(settings)
        if found is None:
            found = _registries[settings] = Registry(RegistryClient(settings))
        return found


def forget_registries() -> None:
    """Close all connections, and forget all ids, so that they are requested again."""
    with _lock:
        for registry in _registries.values():
            registry.client.close()
        _registries.clear()


def _begin_in_child() -> None:
    """Start with empty state in a forked process: it must not use its parent's connections."""
    global _lock  # noqa: PLW0603 - a thread that the fork does not have may hold it
    _lock = threading.Lock()
    _registries.clear()


os.register_at_fork(after_in_child=_begin_in_child)
