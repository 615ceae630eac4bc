"""Passwords are kept out of texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from fencepost.api.config_def import ConfigValue
from fencepost.api.secrets import HIDDEN, Secrets, secret_values
from fencepost.api.texts import shortened
from fencepost.config.connector_config import PluginSpec
from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.entities import ConnectorInfo, TaskInfo
from fencepost.rest.requests import CreateConnector

JAAS = 'x.PlainLoginModule required username="me" password="pass word";'


def test_values_are_hidden_once_they_are_known():
    secrets = Secrets()
    assert secrets.hidden("login as hunter22") == "login as hunter22"
    secrets.learn({"hunter22": HIDDEN, "hunter22-and-more": "${file:db:password}"})
    assert secrets.hidden("hunter22-and-more or xhunter22x") == "${file:db:password} or x[hidden]x"


def test_the_two_newest_values_of_a_renewed_secret_are_hidden():
    secrets = Secrets()
    secrets.learn({"a-password": HIDDEN})
    for number in range(1_000):
        secrets.learn_renewed("endpoint", f"token-{number:05}")
        secrets.learn_renewed("other endpoint", "the-only-token")
    newest = "token-00998 token-00999 the-only-token a-password"
    assert secrets.hidden(newest) == " ".join([HIDDEN] * 4)
    assert secrets.hidden("token-00997") == "token-00997"
    assert len(secrets._hiding.shown) == 4


def test_short_values_are_hidden_as_whole_words():
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
    "said",
    [
        "{!r}".format, lambda value: repr({"p": value}), json.dumps, lambda value: " ".join(value.split()), quote,
        lambda value: f"db://me:{quote_plus(value)}@host", lambda value: f"| {value}".replace("\n", "\n| "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["pass wörd'\"\\", "first line of it\nsecond line of it\n", "control\x1b\u202e/?&"])
def test_values_are_hidden_with_any_escaping(said: Callable[[str], str], value: str):
    secrets = Secrets()
    secrets.learn({value: HIDDEN})
    assert re.findall("pass|rd|line|of it|control|202e", secrets.hidden(said(value))) == []


def test_the_rest_of_a_value_beside_a_cut_is_hidden():
    secrets = Secrets()
    secrets.learn({"hunter-two-two": HIDDEN, "other-value": HIDDEN})
    text = "hunter-two-two" * 20
    for length in range(60, 90):
        assert re.findall("hunt|two-", secrets.hidden(shortened(text, length))) == []
    assert (
        secrets.hidden("no hunt ... (5 characters left out) ... er") == "no [hidden] ... (5 characters left out) ... er"
    )
    assert secrets.hidden("hunt her ... or there") == "hunt her ... or there"


def test_an_excerpt_has_no_part_of_a_value():
    secrets = Secrets()
    secrets.learn({"hunter-two-two": HIDDEN})
    assert secrets.excerpt("as hunter-two-two", 8) == "as [hidd"


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
def test_repr_does_not_show_a_configuration(held: object):
    assert "hunter22" not in repr(held)
