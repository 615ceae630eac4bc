"""Configurations are shown with hidden passwords, and accepted back with these."""

from __future__ import annotations

import pytest

from fencepost.api.errors import ConfigError
from fencepost.api.secrets import HIDDEN
from fencepost.runtime.connector.passwords import (
    check_passwords_stay_hidden,
    restored_config,
    shown_config,
    shown_task_config,
)
from tests.support.refusals import refusal

CONFIG = {"password": "hunter22", "key": "${file:db:key}", "topic": "t", "empty": ""}


def test_passwords_are_not_shown_and_placeholders_are():
    assert shown_config(CONFIG, ["password", "key", "empty", "missing"]) == CONFIG | {"password": HIDDEN}


def test_a_task_shows_no_password_of_its_connector_under_any_name():
    task = {"url": "db://me:hunter22@host", "api.secret": "other", "topic": "t"}
    shown = shown_task_config(task, CONFIG, ["password"])
    assert shown == {"url": f"db://me:{HIDDEN}@host", "api.secret": HIDDEN, "topic": "t"}


def test_a_shown_configuration_that_is_sent_back_is_the_stored_one():
    assert restored_config(CONFIG | {"password": HIDDEN, "topic": "u"}, CONFIG) == CONFIG | {"topic": "u"}


def test_a_hidden_password_that_is_not_stored_is_refused():
    with pytest.raises(ConfigError, match="The value of password is"):
        restored_config({"password": HIDDEN}, None)


@pytest.mark.parametrize("kept", [["password"], ["password", "topic"]])
def test_a_stored_password_is_not_taken_over_where_nothing_defines_it(kept: list[str]):
    with pytest.raises(ConfigError, match="password in password, which none of the plugins"):
        check_passwords_stay_hidden(CONFIG, kept, ["password", "key"], [])


def test_a_password_that_is_given_stays_hidden_or_is_removed_is_accepted():
    assert refusal(check_passwords_stay_hidden, CONFIG, ["topic"], ["password"], []) is None
    assert refusal(check_passwords_stay_hidden, CONFIG, ["password"], ["password"], ["password"]) is None
    assert refusal(check_passwords_stay_hidden, {"topic": "t"}, ["topic"], ["password"], []) is None
    assert refusal(check_passwords_stay_hidden, CONFIG, ["key", "empty"], ["key", "empty"], []) is None
