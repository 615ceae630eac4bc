"""Passwords are kept out of texts."""

from __future__ import annotations

import pytest

from fencepost.api.config_def import ConfigValue
from fencepost.config.connector_config import PluginSpec
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.secrets import HIDDEN, Secrets, secret_values
from fencepost.herder.interface import ConnectorInfo, TaskInfo
from fencepost.rest.requests import CreateConnector

JAAS = 'x.PlainLoginModule required username="me" password="pass word";'


def test_values_are_hidden_once_they_are_known():
    secrets = Secrets()
    assert secrets.hidden("login as hunter22") == "login as hunter22"
    secrets.learn({"hunter22": HIDDEN, "hunter22-and-more": "${file:db:password}"})
    assert secrets.hidden("hunter22-and-more or xhunter22x") == "${file:db:password} or x[hidden]x"


def test_short_values_are_hidden_where_they_stand_by_themselves():
    secrets = Secrets()
    secrets.learn({"test": HIDDEN, "abc": HIDDEN})
    assert secrets.hidden("db://me:test@host has the latest abc") == "db://me:[hidden]@host has the latest abc"


def test_properties_that_hold_passwords_are_known_by_their_names():
    secrets = Secrets()
    secrets.learn_properties({"producer.sasl.jaas.config": JAAS, "ssl.key.password": "keypass", "topic": "orders"})
    assert secrets.hidden(f"orders {JAAS} keypass, pass word") == "orders [hidden] [hidden], [hidden]"


def test_the_passwords_in_a_jaas_entry_are_secrets_of_their_own():
    assert secret_values("sasl.jaas.config", JAAS) == [JAAS, "pass word"]
    assert secret_values("sasl.jaas.config", "x required clientId=a clientSecret='s e';")[1:] == ["s e"]


@pytest.mark.parametrize(
    "held",
    [
        ConfigValue("password", "hunter22"),
        PluginSpec("C", {"password": "hunter22"}),
        ConnectorInfo("c", {"password": "hunter22"}, []),
        TaskInfo(ConnectorTaskId("c", 0), {"password": "hunter22"}),
        CreateConnector("c", {"password": "hunter22"}, None),
    ],
)
def test_what_holds_a_configuration_does_not_show_it(held: object):
    assert "hunter22" not in repr(held)
