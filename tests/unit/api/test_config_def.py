"""`ConfigDef` as an author uses it."""

from __future__ import annotations

from typing import Any

from fencepost import ConfigDef, ConfigError


def _positive(name: str, value: Any) -> None:
    if value <= 0:
        raise ConfigError(f"{name} must be positive", name=name)


def test_a_validator_need_not_accept_values_that_do_not_parse() -> None:
    defined = ConfigDef().define("rows", ConfigDef.Type.INT, 1, validator=_positive)

    (value,) = defined.validate({"rows": "zwei"})

    assert value.value is None
    (error,) = value.errors
    assert "a whole number" in error


def test_a_value_that_parses_is_kept_with_its_error() -> None:
    defined = ConfigDef().define("rows", ConfigDef.Type.INT, 1, validator=_positive)

    (value,) = defined.validate({"rows": "0"})

    assert (value.value, value.errors) == (0, ["rows must be positive"])
