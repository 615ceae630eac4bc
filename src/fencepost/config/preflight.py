"""The checks of a source connector's configuration before it is accepted (KIP-618, KIP-458)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.config_def import ConfigValue
from fencepost.api.context import ConnectorTransactionBoundaries, ExactlyOnceSupport
from fencepost.api.errors import describe_error
from fencepost.config.client_overrides import OverridePolicy
from fencepost.config.connector_config import (
    ExactlyOnceRequest,
    TransactionBoundary,
    chain_errors,
    connector_config_def,
)
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.error_handling import dead_letter_errors
from fencepost.config.topic_creation import topic_creation_errors
from fencepost.config.validation_context import ValidationContext
from fencepost.config.worker_config import ExactlyOnceSourceSupport

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


def preflight(
    config: Mapping[str, str],
    connector: ConnectorInstance,
    *,
    support: ExactlyOnceSourceSupport,
    override_policy: OverridePolicy,
    allowed_paths: AllowedPaths,
    accepted: bool = False,
) -> list[ConfigValue]:
    """Check a connector's configuration and return every property with its errors.

    `support`, `override_policy` and `allowed_paths` are the worker's. The connector is asked for its own properties,
    and for its abilities where the configuration needs them. A configuration that was `accepted` before is only checked
    against the definitions of the connector's properties. The connector's own check is left out, because it may access
    its source, which may be temporarily unavailable. For the same reason, errors of the methods that return the
    abilities are then raised, and not reported as errors of properties.
    """
    connector.set_context(ValidationContext(config, allowed_paths))
    common = connector_config_def().validate(config)
    return merge(
        [
            *common,
            *(connector.validate_definitions(config) if accepted else connector.validate(config)),
            *chain_errors(config),
            *topic_creation_errors(config),
            *dead_letter_errors(config),
            *(ConfigValue(name, config[name], errors=[why]) for name, why in override_policy.refused(config).items()),
            *exactly_once_errors(config, connector, support, accepted=accepted),
            *transaction_boundary_errors(config, connector, accepted=accepted),
        ]
    )


def merge(values: Iterable[ConfigValue]) -> list[ConfigValue]:
    """Merge the results of several checks: one entry for each property, with all its errors."""
    merged: dict[str, ConfigValue] = {}
    for value in values:
        first = merged.setdefault(value.name, ConfigValue(value.name, visible=value.visible))
        first.value = value.value if first.value is None else first.value
        first.recommended_values = first.recommended_values or value.recommended_values
        first.errors.extend(error for error in value.errors if error not in first.errors)
    return list(merged.values())


def with_name(name: str, error: str) -> str:
    """Return an error with the name or prefix of its property in front, because Java's errors do not contain the name.

    An error that names a group of properties, such as `value.converter.*`, refers to all properties of the group.
    """
    is_named = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", error)
    groups = re.findall(r"[\w.-]+\.(?=\*)", error)
    return error if is_named or any(map(name.startswith, groups)) else f"{name}: {error}"


def exactly_once_errors(
    config: Mapping[str, str],
    connector: ConnectorInstance,
    support: ExactlyOnceSourceSupport,
    *,
    accepted: bool = False,
) -> list[ConfigValue]:
    """Check `exactly.once.support=required` against the worker's setting and the connector's answer."""
    name = "exactly.once.support"
    if config.get(name, "").strip().lower() != ExactlyOnceRequest.REQUIRED:
        return []
    found = ConfigValue(name, ExactlyOnceRequest.REQUIRED)
    if support is not ExactlyOnceSourceSupport.ENABLED:
        found.errors.append(
            f"This worker does not deliver exactly once: its exactly.once.source.support is {support}. "
            "Set it to enabled on all workers, or set exactly.once.support=requested"
        )
    answer, failure = _ask(lambda: connector.exactly_once_support(config), connector, name, raises=accepted)
    if failure is not None:
        found.errors.append(failure)
    elif answer is None:
        found.errors.append(
            "The connector does not say whether it can deliver exactly once with this configuration. Consult its "
            "documentation; if that promises it, set exactly.once.support=requested"
        )
    elif answer != ExactlyOnceSupport.SUPPORTED:
        found.errors.append(
            "The connector says that it cannot deliver exactly once with this configuration. Change the "
            "configuration as its documentation says, or set exactly.once.support=requested to run it without"
        )
    return [found]


def transaction_boundary_errors(
    config: Mapping[str, str], connector: ConnectorInstance, *, accepted: bool = False
) -> list[ConfigValue]:
    """Check `transaction.boundary=connector` against the connector's answer."""
    name = "transaction.boundary"
    if config.get(name, "").strip().lower() != TransactionBoundary.CONNECTOR:
        return []
    found = ConfigValue(name, TransactionBoundary.CONNECTOR)
    answer, failure = _ask(
        lambda: connector.can_define_transaction_boundaries(config), connector, name, raises=accepted
    )
    if failure is not None:
        found.errors.append(failure)
    elif answer is None:
        found.errors.append(
            "The connector's can_define_transaction_boundaries returned None, which is taken for UNSUPPORTED: "
            "set transaction.boundary to poll or interval"
        )
    elif answer != ConnectorTransactionBoundaries.SUPPORTED:
        found.errors.append(
            "The connector cannot define transaction boundaries with this configuration: "
            "set transaction.boundary to poll or interval"
        )
    return [found]


def _ask(
    question: Callable[[], _Answer], connector: ConnectorInstance, name: str, *, raises: bool
) -> tuple[_Answer | None, str | None]:
    """Return the connector's answer, and None.

    If the connector raises an error: raise it if `raises`, else return None and a message.
    """
    try:
        return question(), None
    except Exception as error:
        if raises:
            raise
        _log.warning("%s raised an exception when asked about %s", connector.type_name, name, exc_info=True)
        reason = describe_error(error)
        return None, f"The connector could not answer whether it supports {name} as configured: {reason}"
