"""The options of a sink."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from fencepost.api.errors import ConfigError
from fencepost.api.secrets import SECRETS
from fencepost.spark.config.sink_config import SinkConfig, merged_options, sink_config_def
from fencepost.spark.frame.record_columns import SinkColumns
from fencepost.spark.frame.rows import pipeline_for

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def test_options_of_kafka_are_taken_with_and_without_their_prefix():
    config = SinkConfig.from_options(SERVERS | {"kafka.batch.size": "1000", "max.request.size": 2000})
    assert (config.producer.batch_size, config.producer.max_request_size) == (1000, 2000)
    assert config.producer.client.bootstrap_servers == ("127.0.0.1:9092",)


def test_a_transaction_may_be_open_as_long_as_brokers_allow_by_default():
    assert SinkConfig.from_options(SERVERS).producer.transaction_timeout_ms == 900_000
    assert SinkConfig.from_options(SERVERS | {"transaction.timeout.ms": 1}).producer.transaction_timeout_ms == 1


def test_options_without_a_value_count_as_unset():
    assert SinkConfig.from_options(SERVERS | {"topic": None, "name": None}).topic is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kafka.bootsrap.servers": "x:1"}, "did you mean bootstrap.servers"),
        ({"interceptor.classes": "A"}, "interceptor.classes has no counterpart here"),
        ({"kafka.key.serializer": "A"}, "key.serializer has no counterpart here: rows are written as key.converter"),
        ({"value.serializer": "A"}, "value.serializer has no counterpart here"),
        ({"topic": "a b"}, "the name of a topic"),
        ({"name": "a/run=b"}, "must not contain /run="),
        ({"name": "r "}, "name='r ' begins or ends with a blank"),
        ({"kafka.name": "\u00a0r"}, "begins or ends with a blank: remove it"),
        ({"name": " "}, "name is empty"),
        ({"name": "x" * 32_767}, "has 32767 characters, too many for a transactional id"),
        ({"first.batch": -1}, "at least 0"),
        ({"acks": "1"}, "acks=1 cannot be exactly-once"),
        ({"transforms": "a"}, "transforms.a.type"),
        ({"value.converter.schemas.enable": "false"}, "has no effect without value.converter"),
        ({"bootstrap.servers": "127.0.0.1:1"}, "kafka.bootstrap.servers are the same option with two values"),
    ],
)
def test_an_invalid_option_is_refused(options: dict[str, object], text: str):
    with pytest.raises(ConfigError, match=text):
        SinkConfig.from_options(SERVERS | options)


def test_passwords_are_hidden_from_then_on():
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter-22";'
    config = SinkConfig.from_options(
        SERVERS
        | {"kafka.security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": jaas}
    )
    assert "hunter-22" not in SECRETS.hidden(f"failed for {jaas}")
    assert "hunter-22" not in repr(config)


def test_an_option_may_be_given_twice_with_one_value():
    assert SinkConfig.from_options(SERVERS | {"bootstrap.servers": "127.0.0.1:9092"}).topic is None


@pytest.mark.parametrize("columns", ["a,b", ["a", "b"], ("a", "b")])
def test_a_list_may_be_one_of_python(columns: object):
    assert SinkConfig.from_options(SERVERS | {"key.columns": columns}).key_columns == ("a", "b")


def test_a_runs_key_is_made_of_its_text():
    config = SinkConfig.from_options(SERVERS | {"topic": "t"})
    assert config.key_of(7) == config.key_of("7")
    assert config.key_of(dt.date(2026, 11, 22)).encoded == config.key_of("2026-11-22").encoded


@pytest.mark.parametrize("run", ["", " "])
def test_an_empty_run_is_refused(run: str):
    with pytest.raises(ConfigError, match="run is empty"):
        SinkConfig.from_options(SERVERS | {"topic": "t"}).key_of(run)


@pytest.mark.parametrize("run", ["r ", " r", "r\n", "\tr", "r\u2003"])
def test_a_run_with_a_blank_at_an_end_is_refused(run: str):
    config = SinkConfig.from_options(SERVERS | {"topic": "t"})
    with pytest.raises(ConfigError, match=r"run='.*' begins or ends with a blank: remove it"):
        config.key_of(run)
    assert config.key_of("a b").run == "a b"


def test_one_write_to_topics_named_by_rows_keeps_keys():
    assert SinkConfig.from_options(SERVERS).key_of(None).sink.startswith("topics-")


def test_a_misspelt_option_of_a_converter_is_refused():
    options = SERVERS | {"topic": "t", "value.converter": "JsonConverter", "value.converter.schema.enable": False}
    rows = StructType([StructField("value", StringType())])
    with pytest.raises(ConfigError, match=r"did you mean value\.converter\.schemas\.enable\?"):
        pipeline_for(rows, SinkConfig.from_options(options))


def test_a_converter_that_is_not_there_is_to_be_installed_on_driver_and_executors():
    rows = StructType([StructField("value", StringType())])
    with pytest.raises(ConfigError, match=r"pip install \.\.\.\) where the driver and the executors run") as raised:
        pipeline_for(rows, SinkConfig.from_options(SERVERS | {"topic": "t", "value.converter": "JsnConverter"}))
    assert "plugin.path" not in str(raised.value)


def test_options_speak_of_rows_and_not_of_tasks():
    texts = [key.documentation for key in sink_config_def().keys().values()]
    assert not [text for text in texts if "task" in text or "source offsets" in text]


def test_a_run_that_is_invalid_in_a_transactional_id_is_refused():
    config = SinkConfig.from_options(SERVERS | {"topic": "orders"})
    assert config.key_of("x" * 1_000).run == "x" * 1_000
    with pytest.raises(ConfigError, match="has 32767 characters"):
        config.key_of("x" * 32_767)


@pytest.mark.parametrize("name", ["Key", "TOPIC", "Timestamp"])
def test_a_column_that_differs_in_case_only_is_refused(name: str):
    config = SinkConfig.from_options(SERVERS | {"topic": "orders"})
    assert SinkColumns.of(["value", "key", "other"], config).selected == ("key", "value")
    with pytest.raises(ConfigError, match=f"'{name}' of the DataFrame would be ignored.*rename it to '{name.lower()}'"):
        SinkColumns.of(["value", name], config)


def test_options_are_a_dict_besides_keyword_arguments():
    arguments = {"topic": "orders", "name": None, "bootstrap.servers": "127.0.0.1:9092"}
    merged = merged_options(arguments, {"kafka.linger.ms": 5, "topic": "orders"}, {"compression.type": "zstd"})
    assert merged == {
        "topic": "orders",
        "bootstrap.servers": "127.0.0.1:9092",
        "linger.ms": 5,
        "compression.type": "zstd",
    }


@pytest.mark.parametrize(
    ("options", "more", "message"),
    [
        ({"kafka.bootstrap.servers": "b:1"}, {}, "The option bootstrap.servers is given twice"),
        ({"linger.ms": 5}, {"linger.ms": 6}, "The option linger.ms is given twice"),
        ({5: 5}, {}, "options has the name 5, which is an int"),
        ("topic=orders", {}, "options is a str: give a dict"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: Any, more: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        merged_options({"bootstrap.servers": "a:1"}, options, more)
