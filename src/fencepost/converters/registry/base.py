"""The base of converters that register schemas: each decision is made once in the driver, and used everywhere.

    prepare(topic, schema)             in the worker or driver
      derive    the schema in the registry's language, from the records' types
      subject   its name in the registry
      decide    register, look up, or take the newest or a fixed schema -> id
      plan      how values are written with it
    from_connect_data(topic, ...)      anywhere, from the pickled decision: framing, plan, values -> bytes

A subclass stands for one schema language. It defines `derive`, `plan` and `encode`, which do not contact the registry.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.types import NullType

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError, DataError, PluginError, describe_error
from fencepost.converters.base import BuiltinConverter
from fencepost.converters.registry.client import RegistryClient
from fencepost.converters.registry.config import CONTEXT, define_registry, simple_name
from fencepost.converters.registry.errors import (
    RegistryAccessError,
    RegistryAnsweredError,
    RegistryError,
    RegistryMissingError,
    RegistryRefusedError,
    RegistryUnavailableError,
)
from fencepost.converters.registry.framing import Framing, header_framing, prefix_framing
from fencepost.converters.registry.references import referred_schemas
from fencepost.converters.registry.registry import Registry, shared_registry
from fencepost.converters.registry.schemas import Registered, RegistrySchema
from fencepost.converters.registry.settings import URL, RegistrySettings
from fencepost.converters.registry.subjects import Subjects
from fencepost.converters.render import UnsupportedTypeError, in_slices

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_log: Final = logging.getLogger(__name__)

_CHECK_S: Final = 5.0
"""The maximum time that validating a configuration waits for a registry, in seconds."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A schema in the registry's language, and the name that it gives its records, if any."""

    schema: RegistrySchema
    record_name: str | None
    kind: str
    """The type of the values in one word, such as `string`."""
    connect: Any = None
    """Additional data from which the language makes the plan."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How values are written: `steps` belong to the language, and can be pickled. `indexes` follow the id."""

    steps: Any
    indexes: bytes = b""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for one topic and type. It expires at `until`, on the monotonic clock."""

    subject: str
    id: int
    framing: Framing
    steps: Any
    until: float | None = None


class NotPreparedError(PluginError):
    """Values of a topic arrived without a call of `prepare`: the caller broke the contract of converters."""


class RegistryConverter(BuiltinConverter):
    """A converter with a schema registry, for keys, values and headers.

    A null stays null in the record, whatever its schema is. No schema is registered for it.
    """

    language: ClassVar[str]
    """The registry's name of the schema language."""
    url_property: ClassVar[str] = URL
    """The property with the registry's address, in the user's configuration."""
    register_property: ClassVar[str] = "auto.register.schemas"
    """The property that says whether schemas are registered, in the user's configuration."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.role = "value"
        self._registry_settings: RegistrySettings | None = None
        self._decisions: Mapping[tuple[str, DataType | None], Decision] = {}

    @abstractmethod
    def derive(self, topic: str, schema: DataType | None) -> Derived:
        """Return the schema for values of a Spark type (None: values without a schema). Raises DataError."""

    def to_register(self, derived: Derived, subject: str, client: RegistryClient) -> Derived:  # noqa: ARG002 - for overriding
        """Return the schema to register. It may depend on the versions in the registry.

        Raises the errors of `RegistryClient`.
        """
        return derived

    @abstractmethod
    def plan(
        self, derived: Derived, written: RegistrySchema, referred: Mapping[str, RegistrySchema], *, strict: bool
    ) -> Plan:
        """Return how values are written with a schema: the `derived` one, or another one from the registry.

        `referred` has the schemas that `written` refers to, by name. Each one comes after the schemas that it refers to
        itself.

        Raises DataError if `written` cannot hold the values; if `strict`, also if it lacks some of their fields.
        """

    @abstractmethod
    def encode(self, steps: Any, prefix: bytes, values: pa.Array) -> pa.Array:
        """Return values as `binary`, each with `prefix` before it; a null stays null. Raises DataError."""

    def config(self) -> ConfigDef:
        """Return the definitions of the registry's properties. Subclasses add properties of their language."""
        return define_registry(ConfigDef())

    def configure(self, configs: Mapping[str, str], *, is_key: bool | None = None) -> None:
        """Set the properties. `is_key` is None for headers. Raises ConfigError."""
        self._set(self.config(), configs, is_key=is_key)

    def _set(self, definitions: ConfigDef, configs: Mapping[str, str], *, is_key: bool | None) -> None:
        """Set properties, given with Confluent's names. Raises ConfigError."""
        values = definitions.parse(configs)
        self._registry_settings = RegistrySettings.of(values, configs, url_property=self.url_property)
        _warn_of_unused(values)
        self.role = "header" if is_key is None else "key" if is_key else "value"
        secret = {name for name, key in definitions.keys().items() if key.type is ConfigDef.Type.PASSWORD}
        # All other settings are pickled to executors.
        self.settings = {name: value for name, value in values.items() if name not in secret | {URL}}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the access to the registry, including passwords: executors do not use it."""
        return {**self.__dict__, "_registry_settings": None}

    @property
    def registry(self) -> Registry:
        """The registry of the settings. Raises ConfigError on an executor."""
        return shared_registry(self._reached)

    @property
    def _reached(self) -> RegistrySettings:
        if self._registry_settings is None:
            raise ConfigError(
                f"{type(self).__name__} has no registry: the property {self.url_property} is required",
                name=self.url_property,
            )
        return self._registry_settings

    def check(self, schemas: Mapping[str, DataType | None]) -> None:
        """Check that the registry answers, accepts the login, and would accept the schemas. Raises ConfigError."""
        settings = self._reached
        brief = replace(
            settings,
            connect_timeout_s=min(settings.connect_timeout_s, _CHECK_S),
            read_timeout_s=min(settings.read_timeout_s, _CHECK_S),
            max_retries=0,
        )
        with closing(RegistryClient(brief, patience_s=_CHECK_S)) as client:
            try:
                client.check()
                began = time.monotonic()
                for number, (topic, schema) in enumerate(schemas.items()):
                    if time.monotonic() - began > _CHECK_S / 2:
                        _log.info(
                            "%d of %d schemas were checked; the others are checked when their records are written",
                            number,
                            len(schemas),
                        )
                        break
                    self._check_schema(Registry(client), topic, _normal(schema))
            except (RegistryError, RegistryUnavailableError) as error:
                raise ConfigError(str(error), name=self.url_property) from error

    def _check_schema(self, registry: Registry, topic: str, schema: DataType | None) -> None:
        """Check whether a schema would be accepted, without registering it. Raises the errors of `prepare`."""
        if not self.settings["auto.register.schemas"]:
            self._decide(registry, topic, schema)
            return
        derived, subject = self._derived(registry, topic, schema)
        derived = self.to_register(derived, subject, registry.client)
        try:
            reasons = registry.client.incompatibilities(subject, derived.schema)
        except RegistryAccessError:
            # A login that may register schemas may lack the right to check them.
            return
        if reasons:
            raise RegistryRefusedError(_incompatible(self._where(topic), subject, "", "; ".join(reasons)))

    def prepare(self, topic: str, schema: DataType | None) -> None:
        """Decide on the schema and id for values. Raises a RegistryError or RegistryUnavailableError."""
        key = topic, _normal(schema)
        known = self._decisions.get(key)
        if known is None or (known.until is not None and time.monotonic() >= known.until):
            decision = self._decide(self.registry, *key)
            # The mapping is replaced, not changed, because another thread may be pickling it.
            self._decisions = {**self._decisions, key: decision}

    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        """Return framed bytes.

        Raises NotPreparedError without `prepare`, and DataError for values that the schema cannot hold.
        """
        if values.null_count == len(values):
            return pa.nulls(len(values), pa.binary())
        decision = self._decision(topic, schema)
        prefix = decision.framing.prefix
        try:
            return in_slices(values, len(prefix), lambda part: self.encode(decision.steps, prefix, part))
        except UnsupportedTypeError as error:
            raise DataError(
                f"{type(self).__name__} cannot write {error.path or 'a record'} of the topic {topic}: {self.language} has no "
                f"form for its type {error.kind}. Cast it to STRING or a number, or leave it out"
            ) from error
        except DataError as error:
            raise DataError(f"{type(self).__name__} cannot write a record of the topic {topic}. {error}") from error

    def record_header(self, topic: str, schema: DataType | None) -> tuple[str, bytes] | None:
        """Return the header with the schema's GUID; None if the id is in front of the data.

        Each record with a payload gets this header.
        """
        return self._decision(topic, schema).framing.header

    def _decision(self, topic: str, schema: DataType | None) -> Decision:
        found = self._decisions.get((topic, _normal(schema)))
        if found is None:
            raise NotPreparedError(
                f"{type(self).__name__} was not prepared for the {self.role}s of topic {topic}: the batch did not "
                "announce this topic before it was written. Report this to fencepost"
            )
        return found

    def _where(self, topic: str) -> str:
        return f"the {self.role}s of topic {topic}"

    def _derived(self, registry: Registry, topic: str, schema: DataType | None) -> tuple[Derived, str]:
        """Return the schema of values, and its subject."""
        try:
            derived = self.derive(topic, schema)
        except DataError as error:
            raise RegistryError(
                f"{type(self).__name__} has no schema for {self._where(topic)}: {describe_error(error)}"
            ) from error
        return derived, self._subjects().name(topic, derived.record_name, derived.kind, registry)

    def _decide(self, registry: Registry, topic: str, schema: DataType | None) -> Decision:
        where = self._where(topic)
        derived, subject = self._derived(registry, topic, schema)
        if self.settings["auto.register.schemas"]:
            derived = self.to_register(derived, subject, registry.client)
        found, strict, until = self._found(registry, where, subject, derived)
        try:
            referred = referred_schemas(registry.client, found.schema)
            plan = self.plan(derived, found.schema, referred, strict=strict)
        except DataError as error:
            raise RegistryError(
                f"{where[0].upper()}{where[1:]} cannot be written with the schema {found.id} of subject {subject}: "
                f"{describe_error(error)}"
            ) from error
        _log.info("%s are written with schema %d of subject %s", f"T{where[1:]}", found.id, subject)
        return Decision(subject, found.id, self._framing(found, plan, subject), plan.steps, until)

    def _found(
        self, registry: Registry, where: str, subject: str, derived: Derived
    ) -> tuple[Registered, bool, float | None]:
        """Return the registry's schema for writing, whether `plan` must be strict, and until when it is valid."""
        settings = self.settings
        normalize, until = settings["normalize.schemas"], None
        strict = True
        try:
            if settings["auto.register.schemas"]:
                found = registry.registered(subject, derived.schema, normalize=normalize)
            elif settings["use.schema.id"] >= 0:
                found, strict = registry.fixed(settings["use.schema.id"], subject), settings["id.compatibility.strict"]
            elif settings["use.schema.guid"]:
                found, strict = registry.fixed_guid(settings["use.schema.guid"]), settings["id.compatibility.strict"]
            elif settings["use.latest.version"]:
                found, until = registry.latest(subject, settings["latest.cache.ttl.sec"])
                strict = settings["latest.compatibility.strict"]
            else:
                found = registry.looked_up(subject, derived.schema, normalize=normalize)
        except RegistryAnsweredError as error:
            raise _explained(error, where, subject, registry.client, self.register_property) from error
        if found.schema.type != self.language:
            raise RegistryError(
                f"The schema {found.id} of subject {subject}, for {where}, is of type {found.schema.type}, and "
                f"{type(self).__name__} writes {self.language}: use another converter, or another subject"
            )
        return found, strict, until

    def _framing(self, found: Registered, plan: Plan, subject: str) -> Framing:
        serializer = simple_name(self.settings[f"{_of_record(self.role)}.schema.id.serializer"])
        if serializer == "PrefixSchemaIdSerializer" or self.role == "header":
            if found.id == 0:
                raise RegistryError(
                    f"The registry did not return the id of the schema with the GUID {self.settings['use.schema.guid']}: set "
                    "use.schema.id"
                )
            return prefix_framing(found.id, plan.indexes)
        if not found.guid:
            raise RegistryError(
                f"The registry has no GUID for schema {found.id} of subject {subject}, so no header can name it: it is older "
                f"than Confluent's 8.0, or another one. Set {self.role}.schema.id.serializer=PrefixSchemaIdSerializer"
            )
        return header_framing(self.role, found.guid, plan.indexes)

    def _subjects(self) -> Subjects:
        settings = self.settings
        return Subjects(
            self.role,
            simple_name(settings[f"{_of_record(self.role)}.subject.name.strategy"]),
            settings["subject.name.strategy.fallback.type"].upper(),
            settings["subject.name.strategy.kafka.cluster.id"],
            settings[CONTEXT],
        )


def _of_record(role: str) -> str:
    """Return the role whose properties apply: headers use the properties of values."""
    return "key" if role == "key" else "value"


def _normal(schema: DataType | None) -> DataType | None:
    return None if isinstance(schema, NullType) else schema


def _warn_of_unused(values: Mapping[str, Any]) -> None:
    for name, chosen in (
        ("use.latest.version", values["use.latest.version"]),
        ("use.schema.id", values["use.schema.id"] >= 0),
        ("use.schema.guid", bool(values["use.schema.guid"])),
    ):
        if chosen and values["auto.register.schemas"]:
            _log.warning(
                "%s has no effect with auto.register.schemas=true, which is the default: set that to false", name
            )


def _explained(
    error: RegistryAnsweredError, where: str, subject: str, client: RegistryClient, register_property: str
) -> RegistryAnsweredError:
    """Return an error that explains to a connector's user why the registry refused, with advice."""
    newest = ""
    if not isinstance(error, RegistryAccessError):
        try:
            newest = f" (newest version: {client.latest(subject).version})"
        except (RegistryError, RegistryUnavailableError):
            newest = ""
    if error.status == HTTPStatus.CONFLICT:
        message = f"{_incompatible(where, subject, newest, error.reason or str(error))}. {_NOTHING_LOST}"
    elif isinstance(error, RegistryMissingError):
        message = (
            f"The schema of {where} is not in the registry under subject {subject}{newest}: {error.reason or error}. Register "
            f"it, or set {register_property}=true"
        )
    elif isinstance(error, RegistryAccessError):
        message = f"{error}. It was for subject {subject}, of {where}"
    else:
        message = f"The registry refuses the schema of {where} for subject {subject}{newest}: {error}. {_NOTHING_LOST}"
    return type(error)(message, status=error.status, code=error.code, reason=error.reason)


_NOTHING_LOST: Final = "Nothing of these records is written, and none is skipped"


def _incompatible(where: str, subject: str, newest: str, reason: str) -> str:
    return (
        f"The schema of {where} is incompatible with those of subject {subject}{newest}, and the registry refuses it: {reason}. "
        "Give new columns a default or let them be null, undo the change in the source, or set the subject's compatibility to "
        "NONE if its readers can live with it"
    )
