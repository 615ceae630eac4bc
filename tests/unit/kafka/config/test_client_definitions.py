"""The definitions of the clients' properties."""

from __future__ import annotations

import pytest

from fencepost.api.config_def import ConfigDef
from fencepost.kafka.config import client_properties as known
from fencepost.kafka.config.client_definitions import client_definition

CLIENTS = ("producer", "consumer", "admin")
NOT_OF_KAFKA_4 = {"auto.include.jmx.reporter", "config.providers", "proxy.url"}


@pytest.mark.parametrize(
    ("client", "name", "kind", "default", "importance"),
    [
        ("producer", "enable.idempotence", "BOOLEAN", True, "LOW"),
        ("producer", "bootstrap.servers", "LIST", [], "HIGH"),
        ("producer", "linger.ms", "LONG", 5, "MEDIUM"),
        ("producer", "transactional.id", "STRING", None, "LOW"),
        ("consumer", "isolation.level", "STRING", "read_uncommitted", "MEDIUM"),
        ("consumer", "client.id", "STRING", "", "LOW"),
        ("admin", "client.id", "STRING", "", "MEDIUM"),
        ("admin", "sasl.jaas.config", "PASSWORD", None, "MEDIUM"),
        ("producer", "key.serializer", "CLASS", ConfigDef.NO_DEFAULT, "HIGH"),
    ],
)
def test_definitions_match_the_client(client: str, name: str, kind: str, default: object, importance: str):
    key = client_definition(client, name)
    assert key is not None
    assert (key.name, key.type, key.default, key.importance) == (name, kind, default, importance)


def test_a_client_has_no_properties_of_the_others():
    assert client_definition("admin", "linger.ms") is None
    assert client_definition("producer", "isolation.level") is None


@pytest.mark.parametrize("name", sorted(known.CLIENT.keys()))
def test_common_client_properties_are_defined_for_each_client(name: str):
    assert all(client_definition(client, name) is not None for client in CLIENTS)


@pytest.mark.parametrize("name", sorted({*known.ALL, *known.NO_COUNTERPART}))
def test_each_name_that_is_known_is_defined_and_explained(name: str):
    defined = [key for client in CLIENTS if (key := client_definition(client, name)) is not None]
    assert all(key.documentation for key in defined)
    assert defined or name in NOT_OF_KAFKA_4


def test_the_documentation_explains_the_effect_of_a_property():
    forced, unused = client_definition("producer", "enable.idempotence"), client_definition("producer", "linger.ms")
    assert forced is not None
    assert unused is not None
    assert "fencepost sets it itself" in forced.documentation
    assert "without effect" in unused.documentation
