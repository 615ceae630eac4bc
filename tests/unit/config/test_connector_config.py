from __future__ import annotations

import re

import pytest

from fencepost.api.errors import ConfigError
from fencepost.config.connector_config import (
    ConnectorConfig,
    ExactlyOnceRequest,
    PluginSpec,
    TransactionBoundary,
    TransformSpec,
    connector_config_def,
)
from fencepost.config.validators import python_regex

MINIMAL = {"name": "c", "connector.class": "X"}


def _connector(properties: dict[str, str]) -> ConnectorConfig:
    return ConnectorConfig.from_properties(MINIMAL | properties)


def test_connector_defaults_match_connect():
    config = _connector({})
    assert config.exactly_once_support is ExactlyOnceRequest.REQUESTED
    assert config.transaction_boundary is TransactionBoundary.POLL
    assert config.transaction_boundary_interval_ms is None
    assert config.offsets_storage_topic is None
    assert config.topic_creation is None
    assert config.tasks_max == 1


def test_the_names_of_settings_are_read_in_any_case():
    config = _connector({"transaction.boundary": "INTERVAL", "exactly.once.support": "Required"})
    assert config.transaction_boundary is TransactionBoundary.INTERVAL
    assert config.exactly_once_support is ExactlyOnceRequest.REQUIRED


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\x7fb", ".", " .. "])
def test_a_name_that_cannot_be_a_key_or_a_part_of_a_path_is_refused(name: str):
    with pytest.raises(ConfigError):
        _connector({"name": name})


def test_a_name_that_is_too_long_for_the_group_is_refused_by_its_bytes():
    assert _connector({"name": "é" * 500}).name == "é" * 500
    with pytest.raises(ConfigError, match="must have at most 1,000 bytes"):
        _connector({"name": "é" * 500 + "x"})


def test_a_connectors_converter_replaces_the_workers_with_its_properties():
    worker = {"value.converter": "Json", "value.converter.schemas.enable": "false"}
    assert _connector({}).converter("value.converter", worker) == PluginSpec("Json", {"schemas.enable": "false"})
    own = _connector({"value.converter": "Json"}).converter("value.converter", worker)
    assert own == PluginSpec("Json", {})


def test_transforms_keep_their_order_and_find_their_predicates():
    config = _connector(
        {
            "transforms": "b,a",
            "transforms.a.type": "A",
            "transforms.a.x": "1",
            "transforms.b.type": "B",
            "transforms.b.predicate": "p",
            "transforms.b.negate": "true",
            "predicates": "p",
            "predicates.p.type": "P",
            "predicates.p.pattern": "q",
        }
    )
    assert config.transforms == (
        TransformSpec("b", PluginSpec("B", {}), PluginSpec("P", {"pattern": "q"}), negate=True, predicate_alias="p"),
        TransformSpec("a", PluginSpec("A", {"x": "1"})),
    )


TOPICS = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}


@pytest.mark.parametrize(
    ("properties", "blamed"),
    [
        ({"transforms": "a"}, "transforms.a.type"),
        ({"transforms": "a,a", "transforms.a.type": "A"}, "transforms"),
        ({"transforms": "a", "transforms.a.type": "A", "transforms.a.predicate": "p"}, "transforms.a.predicate"),
        ({"predicates": "p"}, "predicates.p.type"),
        ({"topic.creation.default.partitions": "3"}, "topic.creation.default.replication.factor"),
        ({"topic.creation.groups": "g"}, "topic.creation.default.partitions"),
        (
            TOPICS | {"topic.creation.groups": "g", "topic.creation.g.include": "[a&&[b]]"},
            "topic.creation.g.include",
        ),
        (TOPICS | {"topic.creation.groups": "g,g", "topic.creation.g.include": "x"}, "topic.creation.groups"),
        (TOPICS | {"topic.creation.groups": "g"}, "topic.creation.g.include"),
        ({"offsets.storage.topic": " "}, "offsets.storage.topic"),
        ({"tasks.max": "0"}, "tasks.max"),
        ({"errors.deadletterqueue.topic.name": "dead"}, "errors.deadletterqueue.topic.name"),
        (
            {"errors.deadletterqueue.topic.name": "a b", "errors.tolerance": "all"},
            "errors.deadletterqueue.topic.name",
        ),
    ],
)
def test_a_bad_property_is_named(properties: dict[str, str], blamed: str):
    with pytest.raises(ConfigError) as raised:
        _connector(properties)
    assert raised.value.name == blamed


def test_topics_are_created_as_their_group_says():
    creation = _connector(
        {
            "topic.creation.default.partitions": "3",
            "topic.creation.default.replication.factor": "-1",
            "topic.creation.default.cleanup.policy": "compact",
            "topic.creation.groups": "big",
            "topic.creation.big.include": "big-.*",
            "topic.creation.big.exclude": "big-not",
            "topic.creation.big.partitions": "9",
        }
    ).topic_creation
    assert creation is not None
    big, default = creation.group_of("big-one"), creation.group_of("small")
    assert (big.partitions, big.replication_factor, dict(big.settings)) == (9, -1, {})
    assert (default.partitions, dict(default.settings)) == (3, {"cleanup.policy": "compact"})
    assert creation.group_of("big-not") is default


def test_topic_creation_groups_apply_in_connects_order():
    groups = dict.fromkeys(key.group for key in connector_config_def().keys().values())
    assert list(groups) == [
        "Common", "Transforms", "Predicates", "Error Handling", "Topic Creation", "Exactly Once Support", "offsets.topic",
    ]  # fmt: skip


def test_every_property_is_documented():
    assert all(len(key.documentation) > 20 for key in connector_config_def().keys().values())


@pytest.mark.parametrize(
    "text", ["[a[b]]", "[a&&b]", "[^[a]", "(", "(?u)a", "a{99999999999999999999}", "\\p{L}", "(" * 10_000]
)
def test_expressions_that_python_has_not_or_reads_otherwise_are_refused(text: str):
    with pytest.raises(ConfigError, match="not a regular expression that is supported"):
        python_regex("include", text)


@pytest.mark.parametrize(
    ("regex", "text", "matches"),
    [
        ("\\w+", "t\u00e4ble", False),
        ("\\d", "\u0663", False),
        ("a\\[b[]c&]", "a[bc", True),
        ("[]a]+", "]a", True),
        ("a++b", "aab", True),
        ("ab$", "ab", True),
    ],
)
def test_python_expressions_read_as_java_does(regex: str, text: str, matches: bool):
    assert (python_regex("include", regex).fullmatch(text) is not None) is matches


def test_only_ascii_letters_have_upper_and_lower_case():
    assert python_regex("include", "[\u00e4k]", re.IGNORECASE).fullmatch("K")
    assert not python_regex("include", "[\u00e4k]", re.IGNORECASE).fullmatch("\u00c4")
