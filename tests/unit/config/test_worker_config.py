from __future__ import annotations

import logging
from pathlib import Path

import pytest

from fencepost.api.errors import ConfigError
from fencepost.config.client_overrides import ClientKind, OverridePolicy, overrides
from fencepost.config.worker_config import ExactlyOnceSourceSupport, WorkerConfig, WorkerMode, worker_config_def

MINIMAL = {"bootstrap.servers": "b:9092", "key.converter": "String", "value.converter": "String"}
GROUP = {
    "group.id": "g",
    "offset.storage.topic": "offsets",
    "config.storage.topic": "configs",
    "status.storage.topic": "status",
}


def _worker(properties: dict[str, str], mode: WorkerMode = WorkerMode.STANDALONE) -> WorkerConfig:
    return WorkerConfig.from_properties(MINIMAL | properties, where="worker.properties", mode=mode)


def test_a_standalone_worker_needs_brokers_and_converters_and_is_exactly_once():
    config = _worker({})
    assert config.exactly_once_source_support is ExactlyOnceSourceSupport.ENABLED
    assert (config.offset_flush_interval_ms, config.task_shutdown_graceful_timeout_ms) == (60_000, 5_000)
    assert (config.offset_storage.partitions, config.offset_storage.replication_factor) == (25, None)
    assert (config.config_storage.partitions, config.status_storage.partitions) == (1, 5)


def test_the_topics_of_standalone_workers_are_named_after_their_groups():
    """Offsets and task counts are stored by connector name, so groups that shared topics would mix them up."""
    for given, group in (({}, "connect-standalone"), ({"group.id": " other "}, "other")):
        config = _worker(given)
        stores = (config.offset_storage, config.config_storage, config.status_storage)
        assert [store.name for store in stores] == [f"{group}-offsets", f"{group}-configs", f"{group}-status"]
    assert _worker({"group.id": "other", "offset.storage.topic": "mine"}).offset_storage.name == "mine"


def test_a_group_with_a_name_invalid_for_topics_needs_names_for_topics():
    with pytest.raises(
        ConfigError, match=r"worker.properties: offset.storage.topic is unset, and group.id=zwölf is not usable"
    ):
        _worker({"group.id": "zwölf"})
    assert _worker(GROUP | {"group.id": "zwölf"}).group_id == "zwölf"


def test_a_distributed_worker_names_group_and_topics_and_is_exactly_once_on_request():
    with pytest.raises(ConfigError, match=r"worker.properties: .*group.id is required"):
        _worker({}, WorkerMode.DISTRIBUTED)
    config = _worker(GROUP, WorkerMode.DISTRIBUTED)
    assert config.exactly_once_source_support is ExactlyOnceSourceSupport.DISABLED


def test_connectors_of_a_group_read_files_below_the_working_directory_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert _worker(GROUP, WorkerMode.DISTRIBUTED).allowed_paths.paths == (str(tmp_path),)
    assert _worker({}).allowed_paths.paths is None
    given = {"fencepost.files.allowed.paths": "below, /data"}
    for mode, properties in ((WorkerMode.DISTRIBUTED, GROUP | given), (WorkerMode.STANDALONE, given)):
        assert _worker(properties, mode).allowed_paths.paths == (str(tmp_path / "below"), "/data")
    assert _worker(GROUP | {"fencepost.files.allowed.paths": ""}, WorkerMode.DISTRIBUTED).allowed_paths.paths == ()


@pytest.mark.parametrize("spelling", ["preparing", "PREPARING", "Preparing"])
def test_the_worker_switch_is_read_in_any_case(spelling: str):
    config = _worker(GROUP | {"exactly.once.source.support": spelling}, WorkerMode.DISTRIBUTED)
    assert config.exactly_once_source_support is ExactlyOnceSourceSupport.PREPARING


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bootstrap.servers", " "),
        ("offset.flush.interval.ms", "-1"),
        ("offset.flush.interval.ms", "a minute"),
        ("exactly.once.source.support", "yes"),
        ("exactly.once.source.support", "disabled"),
        ("offset.storage.partitions", "0"),
        ("offset.storage.replication.factor", "0"),
        ("connector.client.config.override.policy", "Some"),
    ],
)
def test_a_bad_value_is_an_error_with_the_file_and_the_property(name: str, value: str):
    with pytest.raises(ConfigError, match=r"^worker\.properties: ") as raised:
        _worker({name: value})
    assert name in str(raised.value)
    assert raised.value.name == name


def test_an_unknown_property_is_warned_of(caplog: pytest.LogCaptureFixture):
    _worker({"offset.flush.intervall.ms": "5", "spark.master": "local[1]", "producer.linger.ms": "1", "ssl.x": "y"})
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "offset.flush.intervall.ms, set in worker.properties, is not known and has no effect" in warning
    assert warning.endswith("did you mean offset.flush.interval.ms?")


def test_prefixed_client_properties_win_over_common_ones():
    config = _worker({"security.protocol": "SSL", "client.id": "w", "producer.client.id": "p", "consumer.x": "y"})
    assert config.client_properties(ClientKind.PRODUCER) == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SSL",
        "client.id": "p",
    }
    assert config.client_properties(ClientKind.CONSUMER)["x"] == "y"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ClientKind.PRODUCER, "transactional.id"),
        (ClientKind.PRODUCER, "enable.idempotence"),
        (ClientKind.CONSUMER, "isolation.level"),
    ],
)
def test_an_override_that_breaks_exactly_once_is_ignored_with_a_warning(
    kind: ClientKind, name: str, caplog: pytest.LogCaptureFixture
):
    config = _worker({f"{kind}.{name}": "x"})
    assert name not in config.client_properties(kind)
    assert f"{kind}.{name}, set in worker.properties, is ignored" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert overrides({f"{kind}.override.{name}": "x"}, f"{kind}.override.", kind, where="connector c") == {}
    assert f"{kind}.override.{name}, set in connector c, is ignored" in caplog.text


_TUNED = {"producer.override.linger.ms": "5", "producer.override.bootstrap.servers": "other:9092"}


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ("All", set()),
        ("None", {"producer.override.linger.ms", "admin.override.sasl.jaas.config", "consumer.override.client.id"}),
        ("Principal", {"producer.override.linger.ms", "consumer.override.client.id"}),
        ("Allowlist", {"admin.override.sasl.jaas.config", "consumer.override.client.id"}),
        ("org.apache.kafka.connect.connector.policy.AllConnectorClientConfigOverridePolicy", set()),
    ],
)
def test_the_override_policy_decides_which_properties_connectors_may_set(policy: str, refused: set[str]):
    config = {
        "producer.override.linger.ms": "5",
        "admin.override.sasl.jaas.config": "j",
        "consumer.override.client.id": "i",
        "topic": "t",
    }
    assert set(OverridePolicy.of(policy, ["linger.ms"]).refused(config)) == refused


@pytest.mark.parametrize(
    ("properties", "refused"),
    [
        ({}, ["producer.override.bootstrap.servers"]),
        ({"connector.client.config.override.allowlist": ""}, list(_TUNED)),
        ({"connector.client.config.override.policy": "All"}, []),
    ],
)
def test_without_a_policy_connectors_tune_clients_and_choose_no_brokers(properties: dict[str, str], refused: list[str]):
    assert list(_worker(properties).override_policy.refused(_TUNED)) == refused


def test_a_refused_override_names_the_line_to_change_and_a_similar_name():
    config = {"admin.override.bootstrap.servers": "b", "consumer.override.reqest.timeout.ms": "1"}
    brokers, misspelt = map(_worker({}).override_policy.refused(config).__getitem__, config)
    assert "add bootstrap.servers to connector.client.config.override.allowlist" in brokers
    assert "set consumer.override.request.timeout.ms, if that was meant" in misspelt


def test_topic_settings_are_passed_on_and_the_topic_stays_compacted(caplog: pytest.LogCaptureFixture):
    config = _worker({"offset.storage.segment.bytes": "1000", "offset.storage.cleanup.policy": "delete"})
    assert dict(config.offset_storage.settings) == {"segment.bytes": "1000", "cleanup.policy": "compact"}
    assert "offset.storage.cleanup.policy is ignored" in caplog.text


def test_spark_settings_are_passed_on():
    assert _worker({"spark.master": "local[1]"}).spark_settings() == {"spark.master": "local[1]"}


@pytest.mark.parametrize("mode", WorkerMode)
def test_every_property_is_documented(mode: WorkerMode):
    assert all(len(key.documentation) > 20 for key in worker_config_def(mode).keys().values())
