"""The properties of the REST API."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from fencepost.api.errors import ConfigError
from fencepost.config.rest_config import Listener, RestConfig
from tests.support.model_herder import model_worker_config


def _config(**properties: str) -> RestConfig:
    return RestConfig.from_properties(
        {name.replace("_", "."): value for name, value in properties.items()}, where="worker.properties"
    )


def test_without_passwords_a_worker_listens_on_port_8083_of_the_loopback_by_default():
    config = _config()
    assert config.listeners == [Listener("http", "127.0.0.1", 8083)]
    assert config.loopback_by_default
    assert config.admin_listeners is None
    assert config.credentials is None


def test_with_passwords_a_worker_listens_on_all_interfaces_by_default(tmp_path: Path):
    users = tmp_path / "users.properties"
    users.write_text("ann=secret\n")
    config = _config(**{"rest.basic.auth.credentials.file": str(users)})
    assert config.listeners == [Listener("http", "", 8083)]
    assert not config.loopback_by_default


def test_a_worker_without_passwords_listens_on_its_listeners():
    config = _config(listeners="http://:8083")
    assert config.listeners == [Listener("http", "", 8083)]
    assert not config.loopback_by_default


def test_listeners_are_read_as_addresses():
    config = _config(listeners="HTTP://Host:80, https://[::1]:443", admin_listeners="http://:1")
    assert config.listeners == [Listener("http", "host", 80), Listener("https", "::1", 443)]
    assert config.admin_listeners == [Listener("http", "", 1)]
    assert [str(listener) for listener in config.listeners] == ["http://host:80", "https://[::1]:443"]


@pytest.mark.parametrize(
    ("properties", "blamed"),
    [
        ({"listeners": ""}, "listeners"),
        ({"listeners": "localhost:80"}, "listeners"),
        ({"listeners": "ftp://localhost:80"}, "listeners"),
        ({"listeners": "http://localhost:99999"}, "listeners"),
        ({"admin.listeners": "x"}, "admin.listeners"),
        ({"rest.advertised.listener": "https"}, "rest.advertised.listener"),
        ({"rest.advertised.listener": "ftp"}, "rest.advertised.listener"),
        ({"rest.advertised.port": "x"}, "rest.advertised.port"),
        (
            {
                "rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
            },
            "rest.basic.auth.credentials.file",
        ),
    ],
)
def test_invalid_configurations_are_named(properties: dict[str, str], blamed: str):
    with pytest.raises(ConfigError, match=r"worker\.properties") as raised:
        RestConfig.from_properties(properties, where="worker.properties")
    assert raised.value.name == blamed


def test_a_rest_extension_in_java_is_refused_as_it_would_not_run(tmp_path: Path):
    users = tmp_path / "users.properties"
    users.write_text("ann=secret\n")
    basic = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
    with pytest.raises(
        ConfigError, match=r"com\.example\.Login,.*not run.*rest\.basic\.auth\.credentials\.file"
    ) as raised:
        _config(
            **{"rest.extension.classes": f"{basic},com.example.Login", "rest.basic.auth.credentials.file": str(users)}
        )
    assert raised.value.name == "rest.extension.classes"
    assert basic not in str(raised.value)
    alone = {"rest.extension.classes": basic, "rest.basic.auth.credentials.file": str(users)}
    assert _config(**alone).credentials == {"ann": "secret"}


def test_other_workers_use_http_where_there_is_a_choice():
    both = "https://h:1,http://h:2"
    assert _config(listeners=both).advertised_scheme == "http"
    assert _config(listeners=both, rest_advertised_listener="HTTPS").advertised_scheme == "https"
    assert _config(listeners="https://h:1").advertised_scheme == "https"


def test_tls_properties_with_the_prefix_replace_all_without_it():
    common = {"ssl.truststore.location": "t", "ssl.protocol": "TLS"}
    plain = RestConfig.from_properties(common, where="w")
    assert plain.tls == plain.admin_tls == common
    prefixed = RestConfig.from_properties({**common, "listeners.https.ssl.keystore.location": "k"}, where="w")
    assert prefixed.tls == {"ssl.keystore.location": "k"}
    assert prefixed.admin_tls == common


def test_passwords_are_read_from_a_file_and_never_shown(tmp_path: Path):
    users = tmp_path / "users"
    users.write_text("ann=secret\n")
    config = _config(**{"rest.basic.auth.credentials.file": str(users)})
    assert config.credentials == {"ann": "secret"}
    assert "secret" not in repr(config)


def test_a_worker_of_a_group_knows_these_properties(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        model_worker_config(listeners="http://:1", rest_advertised_port="2", listeners_https_ssl_protocol="TLS")
    assert caplog.records == []
