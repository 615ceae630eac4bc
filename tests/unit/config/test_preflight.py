"""Section 4 of the behaviour of Connect: why a configuration is refused, and on which property."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost import (
    ConfigDef,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SourceConnector,
    SourceTask,
)
from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.errors import IllegalStateError
from fencepost.config.client_overrides import OverridePolicy
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.preflight import preflight
from fencepost.config.validation_context import ValidationContext
from fencepost.config.worker_config import ExactlyOnceSourceSupport

ENABLED = ExactlyOnceSourceSupport.ENABLED


class _Connector(SourceConnector):
    """Returns or raises the given results."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked = 0

    def version(self) -> str:
        return "1"

    def config(self) -> ConfigDef:
        return ConfigDef().define("file", ConfigDef.Type.STRING)

    def start(self, config: Any) -> None:
        raise AssertionError(config)

    def task_class(self) -> type[SourceTask]:
        raise AssertionError

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        raise AssertionError(max_tasks)

    def exactly_once_support(self, config: Any) -> ExactlyOnceSupport | None:  # noqa: ARG002 - the API's
        return self._answer()

    def can_define_transaction_boundaries(self, config: Any) -> ConnectorTransactionBoundaries:  # noqa: ARG002 - the API's
        return self._answer()

    def _answer(self) -> Any:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def _errors(
    config: dict[str, str],
    connector: SourceConnector | None = None,
    support: ExactlyOnceSourceSupport = ENABLED,
    policy: str = "All",
) -> dict[str, list[str]]:
    complete = {"name": "c", "connector.class": "C", "file": "f"} | config
    instance = ConnectorInstance(connector or _Connector(), "c")
    values = preflight(
        complete, instance, support=support, override_policy=OverridePolicy.of(policy, []), allowed_paths=ANYWHERE
    )
    return {value.name: value.errors for value in values if value.errors}


def test_a_valid_configuration_has_no_errors():
    assert _errors({}) == {}


def test_a_dead_letter_queue_needs_tolerance():
    queue = {"errors.deadletterqueue.topic.name": "dead"}
    assert _errors(queue | {"errors.tolerance": "ALL"}) == {}
    errors = _errors(queue)
    assert list(errors) == list(queue)
    assert "set errors.tolerance=all" in errors["errors.deadletterqueue.topic.name"][0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "Consult its documentation"),
        (ExactlyOnceSupport.UNSUPPORTED, "cannot deliver exactly once"),
        (RuntimeError("no database"), "no database"),
        (RuntimeError(), "as configured: RuntimeError ("),
        (True, "returned a bool: it must return ExactlyOnceSupport.SUPPORTED"),
    ],
)
def test_required_needs_the_connectors_declaration(answer: Any, message: str):
    errors = _errors({"exactly.once.support": "REQUIRED"}, _Connector(answer))
    assert list(errors) == ["exactly.once.support"]
    assert message in errors["exactly.once.support"][0]


def test_required_and_supported_is_valid():
    assert _errors({"exactly.once.support": "required"}, _Connector(ExactlyOnceSupport.SUPPORTED)) == {}


@pytest.mark.parametrize("support", [ExactlyOnceSourceSupport.DISABLED, ExactlyOnceSourceSupport.PREPARING])
def test_required_needs_an_enabled_worker_and_the_connector_is_asked_as_well(support: ExactlyOnceSourceSupport):
    errors = _errors({"exactly.once.support": "required"}, _Connector(None), support)
    assert len(errors["exactly.once.support"]) == 2
    assert str(support) in errors["exactly.once.support"][0]


@pytest.mark.parametrize("value", ["", "always"])
def test_an_invalid_request_lists_the_values_and_the_connector_is_not_asked(value: str):
    connector = _Connector(RuntimeError("asked"))
    errors = _errors({"exactly.once.support": value}, connector)
    assert "requested, required, disabled" in errors["exactly.once.support"][0]
    assert connector.asked == 0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "taken for UNSUPPORTED"),
        (ConnectorTransactionBoundaries.UNSUPPORTED, "cannot define"),
        (RuntimeError("no database"), "no database"),
        (RuntimeError(), "as configured: RuntimeError ("),
        ("yes", "returned a str: it must return ConnectorTransactionBoundaries.SUPPORTED"),
    ],
)
@pytest.mark.parametrize("support", ExactlyOnceSourceSupport)
def test_the_connector_boundary_needs_the_connectors_declaration(
    answer: Any, message: str, support: ExactlyOnceSourceSupport
):
    errors = _errors({"transaction.boundary": "Connector"}, _Connector(answer), support)
    assert list(errors) == ["transaction.boundary"]
    assert message in errors["transaction.boundary"][0]


def test_the_connector_boundary_of_a_connector_that_supports_it_is_valid():
    connector = _Connector(ConnectorTransactionBoundaries.SUPPORTED)
    assert _errors({"transaction.boundary": "connector"}, connector) == {}


def test_an_invalid_boundary_lists_the_values():
    errors = _errors({"transaction.boundary": "batch"})
    assert "poll, interval, connector" in errors["transaction.boundary"][0]


@pytest.mark.parametrize(("value", "valid"), [("0", True), ("10", True), ("-1", False), ("soon", False)])
def test_the_interval_is_a_number_from_0_on(value: str, valid: bool):
    errors = _errors({"transaction.boundary": "interval", "transaction.boundary.interval.ms": value})
    assert list(errors) == ([] if valid else ["transaction.boundary.interval.ms"])


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_offsets_topic_is_an_error(value: str):
    assert list(_errors({"offsets.storage.topic": value})) == ["offsets.storage.topic"]


def test_requested_with_an_unsupporting_connector_is_accepted():
    assert _errors({"exactly.once.support": "requested"}, _Connector(ExactlyOnceSupport.UNSUPPORTED)) == {}


def test_overrides_that_will_be_ignored_are_accepted():
    assert _errors({"producer.override.transactional.id": "x", "consumer.override.isolation.level": "y"}) == {}


def test_an_override_that_the_policy_forbids_is_an_error_on_it():
    errors = _errors({"producer.override.linger.ms": "5"}, policy="None")
    assert list(errors) == ["producer.override.linger.ms"]


def test_the_connectors_own_properties_are_checked():
    errors = _errors({"transforms": "t", "tasks.max": "none"})
    assert set(errors) == {"transforms.t.type", "tasks.max"}
    complete = {"name": "c", "connector.class": "C"}
    instance = ConnectorInstance(_Connector(), "c")
    values = preflight(
        complete, instance, support=ENABLED, override_policy=OverridePolicy.of("All", []), allowed_paths=ANYWHERE
    )
    assert [value.name for value in values if value.errors] == ["file"]


def test_a_connector_that_is_checked_knows_its_configuration_and_where_it_may_read():
    context = ValidationContext({"topic": "t"}, AllowedPaths.of(["/data"]))
    assert (dict(context.configs()), context.allowed_paths.paths) == ({"topic": "t"}, ("/data",))
    for ask in (
        lambda: context.offset_reader, context.request_task_reconfiguration, lambda: context.raise_error(ValueError()),
    ):  # fmt: skip
        with pytest.raises(IllegalStateError, match="connector"):
            ask()
