from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from fencepost import ConfigDef, ConfigError, ConfigValue, ExactlyOnceSupport, SourceConnector, SourceTask
from fencepost.api.errors import PluginError
from fencepost.config.connector_instance import ConnectorInstance


class _Connector(SourceConnector):
    """Returns or raises a given result in every method."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def task_class(self) -> Any:
        return self._answer()

    def version(self) -> Any:
        return self._answer()

    def config(self) -> Any:
        return self._answer()

    def validate(self, config: Any) -> Any:
        del config
        return self._answer()

    def start(self, config: Any) -> None:
        del config
        self._answer()

    def stop(self) -> None:
        self._answer()

    def task_configs(self, max_tasks: int) -> Any:
        del max_tasks
        return self._answer()

    def exactly_once_support(self, config: Any) -> Any:
        return self.validate(config)

    def can_define_transaction_boundaries(self, config: Any) -> Any:
        return self.validate(config)

    def partitions_follow_task_configs(self, config: Any) -> Any:
        return self.validate(config)

    def alter_offsets(self, config: Any, offsets: Any) -> Any:
        del offsets
        return self.validate(config)

    def bind_offsets(self, config: Any, offsets: Any) -> Any:
        del offsets
        return self.validate(config)

    def _answer(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


_ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "version": (),
    "config": (),
    "validate": ({},),
    "start": ({}, None),
    "stop": (),
    "task_class": (),
    "task_configs": (2,),
    "exactly_once_support": ({},),
    "can_define_transaction_boundaries": ({},),
    "partitions_follow_task_configs": ({},),
    "alter_offsets": ({}, []),
    "bind_offsets": ({}, [({"file": "a"}, {"n": 1}), ({"file": "b"}, None)]),
}


def _ask(method: str, answer: Any) -> Any:
    return getattr(ConnectorInstance(_Connector(answer), "c"), method)(*_ARGUMENTS[method])


@pytest.mark.parametrize(
    ("method", "answer", "found", "expected"),
    [
        ("version", 3, "an int", "a str"),
        ("version", None, "None", "a str"),
        ("config", {"file": "str"}, "a dict", "a fencepost.ConfigDef"),
        ("config", ConfigDef, "the class ConfigDef", "a fencepost.ConfigDef"),
        ("validate", None, "None", "a list of fencepost.ConfigValue"),
        ("validate", {"file": []}, "a dict", "a list of fencepost.ConfigValue"),
        ("validate", ["file is missing"], "a list whose item 0 is a str", "a list of fencepost.ConfigValue"),
        ("validate", [ConfigValue("file", errors=[ValueError()])], "for 'file' whose errors", "errors as texts"),  # type: ignore[list-item]
        ("task_class", SourceTask.__new__, "a builtin_function_or_method", "a class that derives from fencepost.Source"),
        ("task_class", dict, "the class dict", "a class that derives from fencepost.SourceTask"),
        ("task_class", None, "None", "a class that derives from fencepost.SourceTask"),
        ("task_configs", None, "None", "a list of dicts of str, one for each task"),
        ("task_configs", {"file": "a"}, "a dict", "a list of dicts of str, one for each task"),
        ("task_configs", "a", "a str", "a list of dicts of str, one for each task"),
        ("task_configs", [{"n": "1"}, None], "a list whose item 1 is None", "a list of dicts of str"),
        ("task_configs", [{"port": 80}], "a list whose item 0 has an int for 'port'", r"str\(...\) makes one"),
        ("task_configs", [{1: "one"}], "a list whose item 0 has a str for 1", "a list of dicts of str"),
        ("exactly_once_support", True, "a bool", "ExactlyOnceSupport.SUPPORTED or ExactlyOnceSupport.UNSUPPORTED"),
        ("exactly_once_support", "yes", "a str", "or None where the connector does not say"),
        ("can_define_transaction_boundaries", False, "a bool", "ConnectorTransactionBoundaries.SUPPORTED"),
        ("partitions_follow_task_configs", "no", "a str", "True or False"),
        ("alter_offsets", None, "None", "True or False"),
        ("bind_offsets", None, "None", "the given pairs of source partition and offset"),
        ("bind_offsets", [], "a list of 0 instead of 2 pairs", "the given pairs"),
        ("bind_offsets", [({"file": "b"}, {"n": 1}), ({"file": "b"}, None)], "item 0 is not the given pair", "the given"),
        ("bind_offsets", [({"file": "a"}, None), ({"file": "b"}, None)], "item 0 is not the given pair", "the given pairs"),
        ("bind_offsets", [({"file": "a"}, {}), ({"file": "b"}, {"n": 1})], "item 1 is not the given pair", "the given pairs"),
        ("bind_offsets", [({"file": "a"}, 1), ({"file": "b"}, None)], "item 0 is not the given pair", "the given pairs"),
    ],
)  # fmt: skip
def test_a_return_value_of_another_type_is_reported_with_the_method(
    method: str, answer: Any, found: str, expected: str
):
    place = rf"{method}\(\) of connector c, defined at .*test_connector_instance\.py:\d+, returned "
    with pytest.raises(PluginError, match=f"{place}.*{found}.*: it must return .*{expected}"):
        _ask(method, answer)


def test_an_instance_of_a_task_is_not_a_task_class():
    class Task(SourceTask):
        def start(self, config: Any) -> None: ...
        def poll(self) -> None: ...

    with pytest.raises(
        PluginError, match=r"task_class\(\) of connector c, .* returned a .*Task: it must return a class"
    ):
        _ask("task_class", Task())
    assert _ask("task_class", Task) is Task


@pytest.mark.parametrize("method", _ARGUMENTS)
def test_an_exit_in_any_method_is_a_failure_of_the_connector(method: str):
    with pytest.raises(PluginError, match=rf"{method}\(\) of connector c raised SystemExit\(3\) at .*instance\.py"):
        _ask(method, SystemExit(3))


def test_an_exit_in_the_constructor_is_a_failure_of_the_connector():
    class Connector(_Connector):
        def __init__(self) -> None:
            raise SystemExit(3)

    with pytest.raises(PluginError, match=r"The constructor of connector c raised SystemExit\(3\)"):
        ConnectorInstance.of(Connector, "c")
    with pytest.raises(PluginError, match=r"The constructor of connector tests\.unit.*Connector raised"):
        ConnectorInstance.of(Connector)


def test_an_exit_in_a_validator_is_a_failure_of_the_connector():
    def leave(name: str, value: Any) -> None:
        raise SystemExit(f"{name} {value}")

    definitions = ConfigDef().define("file", ConfigDef.Type.STRING, None, validator=leave)
    with pytest.raises(PluginError, match=r"A validator in the config\(\) of connector c raised SystemExit\(file None"):
        ConnectorInstance(_Connector(definitions), "c").validate_definitions({})


def test_a_connectors_own_exception_is_raised():
    with pytest.raises(ConfigError, match="no such table"):
        _ask("task_configs", ConfigError("no such table"))


def test_an_attribute_that_is_not_a_method_is_reported():
    connector = _Connector()
    connector.version = "1.0"  # type: ignore[method-assign, assignment]  # what an author may write
    with pytest.raises(PluginError, match=r"version\(\) of connector c cannot be called: it is a str\. Define it as a"):
        ConnectorInstance(connector, "c").version()


def test_task_configurations_may_be_any_iterable_of_mappings():
    def configs() -> Iterator[Mapping[str, str]]:
        yield {"n": "0"}
        yield MappingProxyType({"n": "1"})

    assert _ask("task_configs", configs()) == [{"n": "0"}, {"n": "1"}]
    assert _ask("task_configs", ()) == []


def test_valid_return_values_are_passed_on():
    assert _ask("version", "1") == "1"
    assert _ask("exactly_once_support", "SUPPORTED") is ExactlyOnceSupport.SUPPORTED
    assert _ask("exactly_once_support", None) is None
    assert _ask("alter_offsets", True) is True
    bound = [({"file": "a"}, {"n": 1, "fingerprint": "f"}), ({"file": "b"}, None)]
    assert _ask("bind_offsets", bound) == bound
    values = [ConfigValue("file")]
    assert _ask("validate", values) == values
