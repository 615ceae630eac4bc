"""Spark's UI, logs and event log show no secret from a Spark sink's options."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support.checker import read_topic
from tests.support.processes import Process
from tests.support.security import SecuredBroker, make_certificate, password
from tests.support.topics import Topics, unique

_PATIENCE = 500


def test_no_secret_in_options_is_shown_by_spark(secured: SecuredBroker, tmp_path: Path):
    _, key_store = make_certificate(tmp_path)
    key, _, certificate = key_store.read_text().partition("-----BEGIN CERTIFICATE-----")
    inline = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE-----{certificate}"}
    in_file = {"ssl.keystore.location": str(key_store), "ssl.keystore.password": "of-the-store"}
    topic = Topics(secured.sasl_servers, secured.rdkafka()).create(partitions=1)
    told = {f"kafka.{name}": value for name, value in secured.properties("admin").items()} | {"topic": topic}
    options = {
        way: {**told, **(in_file if "format" in way else inline), "ssl.keystore.type": "PEM", "name": unique("name")}
        for way in ("write_kafka", "exactly_once", "format", "format query")
    }
    (tmp_path / "options.json").write_text(json.dumps(options))
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "rows.txt").write_text("a row\n")
    command = [sys.executable, "-m", "tests.support.spark_secrets_app", str(tmp_path)]
    with Process(command, tmp_path / "output") as driver:
        assert driver.wait(_PATIENCE) == 0, driver.output[-3000:]
    assert len(read_topic(secured.sasl_servers, topic, settings=secured.rdkafka())) == len(options)
    (events,) = (tmp_path / "events").iterdir()
    shown = {file.name: file.read_text() for file in (events, tmp_path / "pages", tmp_path / "output")}
    for name, text in shown.items():
        assert any(sign in text for sign in ("fencepost", topic)), name
        for secret in (password("admin"), "of-the-store", *key.splitlines()[1:-1]):
            assert secret not in text, f"{secret} is in {name}"
    # Spark hides the values of data source options.
    assert "kafka.sasl.jaas.config=*********(redacted)" in shown["pages"]
