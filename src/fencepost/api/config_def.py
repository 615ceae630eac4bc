"""Definitions of configuration properties, and their validation (Connect's ConfigDef)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias

from fencepost.api.errors import ConfigError

Validator = Callable[[str, Any], None]
"""Called with a property's name and its parsed value; raises ConfigError if the value is invalid."""


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"

    def __reduce__(self) -> str:
        return "_NO_DEFAULT"


_NO_DEFAULT: Final = _NoDefault()


class PropertyType(StrEnum):
    """The types that a property may have."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105 - the name of a type


class PropertyImportance(StrEnum):
    """How important a property is to users who configure a connector."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class PropertyWidth(StrEnum):
    """The width of a property's field in a form."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The definition of one property. `default` is `ConfigDef.NO_DEFAULT` for a required property."""

    name: str
    type: PropertyType
    default: Any
    importance: PropertyImportance
    documentation: str = ""
    validator: Validator | None = None
    group: str | None = None
    order_in_group: int = -1
    width: PropertyWidth = PropertyWidth.NONE
    display_name: str = ""
    dependents: Sequence[str] = ()

    @property
    def required(self) -> bool:
        """Whether each configuration must contain this property."""
        return self.default is _NO_DEFAULT


@dataclass(slots=True)
class ConfigValue:
    """The result of validating one property: its parsed value, recommended values, and errors."""

    name: str
    value: Any = field(default=None, repr=False)
    recommended_values: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True


class ConfigDef:
    """A set of property definitions, in the order in which they were defined.

    ConfigDef().define("file", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, ConfigDef.Importance.HIGH, "Which file")

    With `others_allowed`, undefined properties are left to other code: a worker warns only about names that look
    misspelled.
    """

    Type: TypeAlias = PropertyType
    Importance: TypeAlias = PropertyImportance
    Width: TypeAlias = PropertyWidth
    NO_DEFAULT: ClassVar[Any] = _NO_DEFAULT

    def __init__(self, *, others_allowed: bool = False) -> None:
        self._keys: dict[str, ConfigKey] = {}
        self.others_allowed = others_allowed

    def define(
        self,
        name: str,
        type: PropertyType,  # noqa: A002 - Connect's name
        default: Any = _NO_DEFAULT,
        importance: PropertyImportance = PropertyImportance.MEDIUM,
        documentation: str = "",
        *,
        validator: Validator | None = None,
        group: str | None = None,
        order_in_group: int = -1,
        width: PropertyWidth = PropertyWidth.NONE,
        display_name: str = "",
        dependents: Sequence[str] = (),
    ) -> ConfigDef:
        """Add a property and return self. A default may be a text, which is parsed in the same way as a value."""
        key = ConfigKey(
            name, type, default, importance, documentation, validator, group, order_in_group, width,
            display_name or name, tuple(dependents),
        )  # fmt: skip
        if not key.required and default is not None:
            key = replace(key, default=parse_type(name, default, type))
        return self.add(key)

    def add(self, key: ConfigKey) -> ConfigDef:
        """Add a definition, which usually comes from another ConfigDef, and return self."""
        if key.name in self._keys:
            raise ConfigError(f"The property {key.name} is defined twice", name=key.name)
        self._keys[key.name] = key
        return self

    def keys(self) -> Mapping[str, ConfigKey]:
        """Return the definitions by name."""
        return self._keys

    def parse(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the typed value of each defined property. Raises ConfigError for the first invalid property."""
        return {name: self._value(key, config) for name, key in self._keys.items()}

    def validate(self, config: Mapping[str, Any]) -> list[ConfigValue]:
        """Check each defined property and collect the errors.

        A value that can be parsed is included even if it is invalid.
        """
        return [self._checked(key, config) for key in self._keys.values()]

    @staticmethod
    def _checked(key: ConfigKey, config: Mapping[str, Any]) -> ConfigValue:
        checked = ConfigValue(key.name)
        try:
            checked.value = _given(key, config)
        except ConfigError as error:
            checked.errors.append(str(error))
            if key.name in config:
                _check_nothing(key, checked.errors)
            return checked
        try:
            _check(key, checked.value)
        except ConfigError as error:
            checked.errors.append(str(error))
        return checked

    @staticmethod
    def _value(key: ConfigKey, config: Mapping[str, Any]) -> Any:
        value = _given(key, config)
        _check(key, value)
        return value


def _given(key: ConfigKey, config: Mapping[str, Any]) -> Any:
    """Return the typed value of a property in a configuration, or its default if the configuration does not have it."""
    if key.name in config:
        return parse_type(key.name, config[key.name], key.type)
    if key.required:
        raise ConfigError(
            f"The property {key.name} is required and was not given: add '{key.name}=...' to the configuration",
            name=key.name,
        )
    return key.default


def _check(key: ConfigKey, value: Any) -> None:
    if key.validator is not None:
        key.validator(key.name, value)


def _check_nothing(key: ConfigKey, errors: list[str]) -> None:
    """Check None in place of a value that cannot be parsed.

    If the validator refuses None, that is a second error, as in Connect.
    """
    try:
        _check(key, None)
    except ConfigError as error:
        errors.append(str(error))
    except Exception:  # noqa: BLE001 - a validator is written for values of the property's type
        return


_INT_RANGES: Final = {PropertyType.SHORT: 15, PropertyType.INT: 31, PropertyType.LONG: 63}


def parse_type(name: str, value: Any, kind: PropertyType) -> Any:
    """Return `value`, which may be text, as the Python value of a property type.

    Raises ConfigError that names the property, the value and the type.
    """
    if value is None:
        return None
    text = value.strip() if isinstance(value, str) else value
    expected = f"a {kind.value.lower()}"
    try:
        match kind:
            case PropertyType.BOOLEAN:
                expected = "true or false"
                return _parse_boolean(text)
            case PropertyType.SHORT | PropertyType.INT | PropertyType.LONG:
                bits = _INT_RANGES[kind]
                expected = f"a whole number of {bits + 1} bits"
                return _parse_int(text, bits)
            case PropertyType.DOUBLE:
                expected = "a number"
                return _parse_double(text)
            case PropertyType.LIST:
                expected = "a comma-separated list"
                return _parse_list(text)
            case _:
                expected = "a text"
                return _parse_text(text, kind)
    except ValueError:
        raise ConfigError(
            f"Invalid value {value!r} for the property {name}: it must be {expected}", name=name
        ) from None


def _parse_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError


def _parse_int(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError  # noqa: TRY004 - translated by the caller with the property's name
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]+", value):
        raise ValueError
    number = int(value)
    if not -(1 << bits) <= number < (1 << bits):
        raise ValueError
    return number


def _parse_double(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - translated by the caller with the property's name
    return float(value)


def _parse_list(value: Any) -> list[str]:
    if isinstance(value, str):
        return [item.strip() for item in value.split(",")] if value else []
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    raise ValueError


def _parse_text(value: Any, kind: PropertyType) -> Any:
    if isinstance(value, str) or (kind is PropertyType.CLASS and isinstance(value, type)):
        return value
    raise ValueError
