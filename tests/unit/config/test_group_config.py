"""The worker's properties about its group."""

from __future__ import annotations

import pytest

from fencepost.api.errors import ConfigError
from fencepost.config.group_config import GroupConfig


def test_defaults_match_connect_except_for_rebalance_delays() -> None:
    config = GroupConfig.from_properties({}, where="worker.properties")
    assert (config.session_timeout_ms, config.heartbeat_interval_ms, config.rebalance_timeout_ms) == (
        10_000,
        500,
        60_000,
    )
    assert config.connect_protocol == "sessioned"
    assert (config.key_ttl_ms, config.key_size, config.verification_algorithms) == (3_600_000, 32, ("HmacSHA256",))
    assert config.scheduled_rebalance_max_delay_ms == 10_000


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"connect.protocol": "lazy"}, "connect.protocol.*eager, compatible, sessioned"),
        ({"heartbeat.interval.ms": "10000"}, "heartbeat.interval.ms must be less than session.timeout.ms"),
        ({"scheduled.rebalance.max.delay.ms": "-1"}, "scheduled.rebalance.max.delay.ms"),
        ({"inter.worker.signature.algorithm": "HmacMD5"}, "inter.worker.signature.algorithm: use HmacSHA1"),
        ({"inter.worker.verification.algorithms": "HmacSHA512"}, "must contain HmacSHA256"),
    ],
)
def test_invalid_values_are_reported_with_their_location(properties: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=f"worker.properties: .*{told}"):
        GroupConfig.from_properties(properties, where="worker.properties")
