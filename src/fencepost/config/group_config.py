"""The settings of a worker's membership in its group. The properties have Kafka Connect's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.config.validators import at_least, one_of

_T = ConfigDef.Type
_I = ConfigDef.Importance
_KEY_ALGORITHM: Final = "inter.worker.key.generation.algorithm"
_SIGNATURE_ALGORITHM: Final = "inter.worker.signature.algorithm"
_VERIFICATION_ALGORITHMS: Final = "inter.worker.verification.algorithms"
_ALGORITHMS: Final = ("HmacSHA1", "HmacSHA256", "HmacSHA384", "HmacSHA512")


def group_config_def() -> ConfigDef:
    """Return the definitions of the properties of a group of workers."""
    return (
        _times()
        .define(
            "connect.protocol", _T.STRING, "sessioned", _I.LOW,
            "The rebalance protocol: eager (everything stops), compatible (only what moves stops), or sessioned "
            "(compatible, and requests between workers are signed).",
            validator=one_of(["eager", "compatible", "sessioned"]),
        )
        .define(
            "inter.worker.key.size", _T.INT, 32, _I.LOW, "The size of session keys, in bytes.", validator=at_least(16)
        )
        .define(
            _KEY_ALGORITHM, _T.STRING, "HmacSHA256", _I.LOW, "The algorithm that session keys are generated for.",
            validator=_algorithms,
        )
        .define(
            _SIGNATURE_ALGORITHM, _T.STRING, "HmacSHA256", _I.LOW,
            "The algorithm with which this worker signs requests to others.", validator=_algorithms,
        )
        .define(
            _VERIFICATION_ALGORITHMS, _T.LIST, "HmacSHA256", _I.LOW,
            "The signature algorithms that this worker accepts in requests of other workers, comma-separated.",
            validator=_algorithms,
        )
    )  # fmt: skip


def _times() -> ConfigDef:
    definitions = ConfigDef()
    for name, default, what in (
        (
            "session.timeout.ms",
            10_000,
            "How long a worker may send no heartbeat before the group gives its connectors and tasks to others.",
        ),
        (
            "heartbeat.interval.ms",
            500,
            (
                "The pause between a worker's heartbeats (Kafka Connect's default: 3 s), whose answers announce "
                "rebalances. Right after a rebalance the pause is shorter."
            ),
        ),
        (
            "rebalance.timeout.ms",
            60_000,
            "How long a worker may take in a rebalance to stop the connectors and tasks that move to other workers.",
        ),
        (
            "scheduled.rebalance.max.delay.ms",
            10_000,
            (
                "How long the connectors and tasks of a worker that left the group stay unassigned, in case the worker "
                "returns (Kafka Connect's default: 5 minutes)."
            ),
        ),
        ("inter.worker.key.ttl.ms", 3_600_000, "The lifetime of a session key, which signs requests between workers."),
        (
            "worker.sync.timeout.ms",
            10_000,
            "How long a task's restart may wait for the latest task configurations (Kafka Connect's default: 3 s).",
        ),
    ):
        least = 0 if name.startswith("scheduled.") else 1
        definitions.define(name, _T.INT, default, _I.MEDIUM, f"{what} In milliseconds.", validator=at_least(least))
    return definitions


def _check(values: Mapping[str, Any]) -> None:
    if values["heartbeat.interval.ms"] >= values["session.timeout.ms"]:
        raise ConfigError(
            "heartbeat.interval.ms must be less than session.timeout.ms: a third of it is usual",
            name="heartbeat.interval.ms",
        )
    if values[_SIGNATURE_ALGORITHM] not in values[_VERIFICATION_ALGORITHMS]:
        raise ConfigError(
            f"{_VERIFICATION_ALGORITHMS} must contain {values[_SIGNATURE_ALGORITHM]}, with which workers sign "
            f"({_SIGNATURE_ALGORITHM})",
            name=_VERIFICATION_ALGORITHMS,
        )


def _algorithms(name: str, value: Any) -> None:
    for algorithm in [value] if isinstance(value, str) else value:
        if algorithm not in _ALGORITHMS:
            raise ConfigError(
                f"Invalid value {algorithm!r} for the property {name}: use {', '.join(_ALGORITHMS)}", name=name
            )


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A worker's group membership settings, checked. Times are in milliseconds."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    scheduled_rebalance_max_delay_ms: int
    sync_timeout_ms: int
    connect_protocol: str
    key_ttl_ms: int
    key_size: int
    key_algorithm: str
    signature_algorithm: str
    verification_algorithms: tuple[str, ...]

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, where: str) -> GroupConfig:
        """Read the properties of a worker. Raises ConfigError that names the property and `where` it is."""
        try:
            values = group_config_def().parse(properties)
            _check(values)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}", name=error.name) from None
        return cls(
            session_timeout_ms=values["session.timeout.ms"],
            heartbeat_interval_ms=values["heartbeat.interval.ms"],
            rebalance_timeout_ms=values["rebalance.timeout.ms"],
            scheduled_rebalance_max_delay_ms=values["scheduled.rebalance.max.delay.ms"],
            sync_timeout_ms=values["worker.sync.timeout.ms"],
            connect_protocol=values["connect.protocol"].lower(),
            key_ttl_ms=values["inter.worker.key.ttl.ms"],
            key_size=values["inter.worker.key.size"],
            key_algorithm=values[_KEY_ALGORITHM],
            signature_algorithm=values[_SIGNATURE_ALGORITHM],
            verification_algorithms=tuple(values[_VERIFICATION_ALGORITHMS]),
        )
