"""Declarations of `@source`: the function's own properties, and source partitions with a cursor each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fencepost import ConfigDef, ConfigError, SourceConnector, source
from fencepost.connectors.functions.declared import own_properties, partitions_of, source_partition
from fencepost.testing import CHECKS, Check, Limits, run_task
from fencepost.testing.connector_start import StartedConnector

CONFIG = {"topic": "rows", "poll.interval.ms": "20"}
REGIONS = ["eu", "us", "apac"]


def echo(config: Mapping[str, Any], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the configuration that it gets."""
    if cursor is None:
        yield {name: config[name] for name in ("url", "page.size", "ratio", "fast", "tags", "since")}, 1


SHORT = {
    "url": (str, "Where the API is."),
    "page.size": 100,
    "ratio": 0.5,
    "fast": False,
    "tags": list,
    "since": ("2026-01-01", "The first day."),
}
Echo = source(config=SHORT)(echo)


def problems(connector: type[SourceConnector], **config: str) -> dict[str, list[str]]:
    given = CONFIG | {name.replace("_", "."): text for name, text in config.items()}
    return {value.name: value.errors for value in connector().validate(given) if value.errors}


def test_the_function_gets_typed_values_and_defaults() -> None:
    with run_task(Echo, CONFIG | {"url": "http://a", "tags": "a, b", "fast": "true"}) as task:
        assert task.poll().values == [
            {"url": "http://a", "page.size": 100, "ratio": 0.5, "fast": True, "tags": ["a", "b"], "since": "2026-01-01"}
        ]


def test_declared_properties_are_validated_as_any_connectors() -> None:
    assert problems(Echo, url="http://a", tags="") == {}
    found = problems(Echo, page_size="many")
    assert sorted(found) == ["page.size", "tags", "url"]
    assert found["page.size"] == [
        "Invalid value 'many' for the property page.size: it must be a whole number of 64 bits"
    ]
    assert "is required and was not given" in found["url"][0]


def test_declared_properties_have_types_defaults_and_documentation() -> None:
    keys = Echo().config().keys()
    assert (keys["url"].type, keys["url"].required, keys["url"].documentation) == ("STRING", True, "Where the API is.")
    assert (keys["page.size"].type, keys["page.size"].default) == ("LONG", 100)
    assert (keys["since"].default, keys["since"].documentation) == ("2026-01-01", "The first day.")
    assert [keys[name].type for name in ("ratio", "fast", "tags")] == ["DOUBLE", "BOOLEAN", "LIST"]
    # Other properties count as misspelt.
    assert not Echo().config().others_allowed
    assert source(echo)().config().others_allowed


def test_a_config_def_declares_properties_with_validators() -> None:
    def small(name: str, value: Any) -> None:
        if value > 10:
            raise ConfigError(f"{name} is too large", name=name)

    definitions = ConfigDef().define("size", ConfigDef.Type.INT, 5, validator=small)
    connector = source(config=definitions)(echo)
    assert problems(connector, size="11") == {"size": ["size is too large"]}
    secret = own_properties({"token": ConfigDef.Type.PASSWORD})
    assert secret is not None
    assert secret.keys()["token"].type == "PASSWORD"


def test_a_property_that_every_function_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="The property topic is defined twice"):
        source(config={"topic": "rows"})(echo)().config()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (["url"], r"source\(config=...\) was given a list: it takes a dict of properties, or a ConfigDef"),
        ({7: str}, "has the name 7: names of properties are texts"),
        ({"url": None}, "has None for the property url: it takes a type"),
        ({"url": dict}, "has <class 'dict'> for the property url"),
        ({"url": (str, 5)}, "for the property url"),
    ],
)
def test_declarations_of_another_form_are_refused(declared: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        source(config=declared)


@source(key="id", config={"rows": (6, "The rows of each region.")}, partitions=REGIONS)
def regional(config: Mapping[str, Any], cursor: Any, partition: str) -> Iterator[tuple[Any, Any]]:
    """Some rows of each region."""
    for number in range((cursor or 0) + 1, config["rows"] + 1):
        yield {"id": f"{partition}-{number}"}, number


def test_partitions_have_a_cursor_each() -> None:
    config = CONFIG | {"batch.rows": "4"}
    with run_task(regional, config) as task:
        batches = [task.poll() for _ in range(4)]
        assert [batch.offsets for batch in batches] == [
            [({"source": "regional", "partition": region}, {"cursor": cursor})]
            for region, cursor in [("eu", 4), ("us", 4), ("apac", 4), ("eu", 6)]
        ]
        task.commit()
        assert [value["id"] for value in batches[0].values] == [f"eu-{number}" for number in range(1, 5)]
    with run_task(regional, config, offsets=task.offsets) as restarted:
        left = [value["id"] for _ in range(2) for value in restarted.poll().values]
        assert sorted(left) == ["apac-5", "apac-6", "us-5", "us-6"]
        assert not restarted.poll_once()
        assert restarted.at_end()


def test_a_function_that_has_ended_waits_while_another_partition_has_rows() -> None:
    called: list[str] = []

    @source(partitions=["brief", "long"])
    def regions(config: Mapping[str, Any], cursor: Any, partition: str) -> Iterator[tuple[Any, Any]]:
        del config
        called.append(partition)
        start = (cursor or 0) + 1
        for number in range(start, start + (1 if partition == "brief" else 100)):
            yield {"id": number}, number

    with run_task(regions, CONFIG | {"batch.rows": "5", "poll.interval.ms": "600000"}) as task:
        batches = [task.poll() for _ in range(10)]
    assert sum(len(batch.values) for batch in batches) == 1 + 9 * 5
    assert called == ["brief", "long"]


def test_partitions_are_shared_out_over_tasks() -> None:
    for tasks, shares in [(1, [3]), (2, [1, 2]), (3, [1, 1, 1]), (9, [1, 1, 1])]:
        started = StartedConnector(regional, CONFIG)
        found = [json.loads(config["source.partitions"]) for config in started.task_configs(tasks)]
        assert sorted(map(len, found)) == shares
        assert sorted(region for share in found for region in share) == sorted(REGIONS)


def test_no_partition_in_a_configuration_is_a_placeholder() -> None:
    [found] = StartedConnector(source(partitions=["${env:HOME}"])(regional.function), CONFIG).task_configs(1)
    assert "$" not in found["source.partitions"]
    assert json.loads(found["source.partitions"]) == ["${env:HOME}"]


def test_a_function_without_partitions_has_one_task() -> None:
    assert len(StartedConnector(source(echo), CONFIG).task_configs(4)) == 1


def test_partitions_may_depend_on_the_configuration() -> None:
    @source(config={"regions": list}, partitions=lambda config: [{"region": name} for name in config["regions"]])
    def chosen(config: Mapping[str, Any], cursor: Any, partition: Any) -> Iterator[tuple[Any, Any]]:
        assert "source.partitions" not in config
        if cursor is None:
            yield {"region": partition["region"]}, {"page": 1}

    with run_task(chosen, CONFIG | {"regions": "eu,us"}) as task:
        offsets = [task.poll().offsets[0] for _ in range(2)]
    source_name = "test_partitions_may_depend_on_the_configuration.<locals>.chosen"
    assert offsets == [({"source": source_name, "region": name}, {"page": 1}) for name in ("eu", "us")]


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        ([], "is empty, so there is nothing to read"),
        (["a", "b", "a"], 'has "a" twice: give each partition once'),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], "twice: give each partition once"),
        ([None], "has None: a partition is a text"),
        ([["a"]], r"has \['a'\]: a partition is a text"),
        ([{"source": "a"}], "without the name 'source'"),
        ([float("nan")], "has nan: a partition is a text"),
        ([{}], "has {}: a partition is a text"),
    ],
)
def test_wrong_partitions_are_refused(partitions: list[Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        source(partitions=partitions)
    with pytest.raises(ConfigError, match=message):
        partitions_of(lambda _: partitions, {}, "rows")


@pytest.mark.parametrize("partitions", ["eu", {"eu": 1}, 7])
def test_an_invalid_list_of_partitions_is_refused(partitions: Any) -> None:
    with pytest.raises(TypeError, match="it takes a list of partitions, or a function of the configuration"):
        source(partitions=partitions)
    with pytest.raises(ConfigError, match=r"The partitions of the source function rows are .*: return a list"):
        partitions_of(lambda _: partitions, {}, "rows")


def test_a_function_that_takes_no_partition_is_refused() -> None:
    with pytest.raises(TypeError, match=r"it takes a function\(config, cursor, partition\) that yields"):
        source(partitions=REGIONS)(echo)


def test_offsets_of_partitions_may_be_altered() -> None:
    connector = regional()
    mine = source_partition("regional", "eu")
    assert connector.alter_offsets({}, [(mine, {"cursor": 3}), ({"other": 1}, None)])
    for wrong in ({"source": "regional"}, {"source": "other", "partition": "eu"}, None):
        with pytest.raises(ConfigError, match="The source function has no source partition"):
            connector.alter_offsets({}, [(wrong, {"cursor": 3})])


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_a_function_with_partitions_passes_the_checks(check: Check) -> None:
    check(regional, CONFIG, Limits(call_s=60, stop_s=60))
