"""The choice of the converter that reads a connector's records."""

from __future__ import annotations

import pytest

from fencepost.api.errors import ConfigError
from fencepost.converters.record_reading import NO_READING, reading_by

_URL = "value.converter.schema.registry.url"


def test_each_role_has_its_converter_and_its_registry() -> None:
    config = {"key.converter": "LongConverter", "value.converter": "AvroConverter", _URL: "http://127.0.0.1:1"}
    with reading_by(config) as reading:
        assert reading.key.registry is None
        assert reading.value.registry is not None
        assert reading.key.decoder(is_key=True)((7).to_bytes(8, "big"), {}) == 7
        assert reading.key.decoder("StringConverter", is_key=True)(b"7", {}) == "7"


def test_the_format_is_guessed_if_the_converter_is_unknown() -> None:
    assert NO_READING.value.decoder(is_key=False)(b'{"a": 1}', {}) == {"a": 1}


def test_a_converter_without_its_registry_is_refused() -> None:
    with (
        reading_by({"value.converter": "AvroConverter"}) as reading,
        pytest.raises(ConfigError, match="schema registry"),
    ):
        reading.value.decoder(is_key=False)
