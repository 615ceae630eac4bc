"""Group members that break exactly-once delivery, and the consequences for a worker."""

from __future__ import annotations

import pytest

from fencepost.config.worker_config import ExactlyOnceSourceSupport
from fencepost.herder.core.group_topics import GroupTopics
from fencepost.herder.core.mixed_group import judge_group
from fencepost.herder.distributed.assignor_leader import ConfiguredWork, LeaderAssignor
from fencepost.kafka.group.protocol import ConnectProtocol, Election, WorkerMetadata, WorkerTopics

_DISABLED, _PREPARING, _ENABLED = ExactlyOnceSourceSupport
_SAME = GroupTopics(WorkerTopics("offsets", "configs", "statuses"))


def _members(*supports: str) -> list[tuple[str, str]]:
    return [(f"http://w{number}:1/", support) for number, support in enumerate(supports)]


@pytest.mark.parametrize(
    "supports",
    [
        (),
        ("disabled", "disabled"),
        ("disabled", "preparing"),
        ("preparing", "enabled"),
        ("enabled", "enabled"),
        ("disabled", ""),
    ],
    ids="-".join,
)
@pytest.mark.parametrize("own", ExactlyOnceSourceSupport)
def test_a_group_that_is_upgrading_is_not_mixed(own: ExactlyOnceSourceSupport, supports: tuple[str, ...]):
    found = judge_group(own, _members(*supports), _SAME)
    assert (found.breaking, found.unknown, found.holds_tasks) == ((), (), False)


def test_a_disabled_member_beside_an_enabled_one_breaks_the_guarantee_for_all():
    found = judge_group(_ENABLED, _members("enabled", "disabled", "preparing", ""), _SAME)
    assert (found.breaking, found.unknown) == (("http://w1:1/",), ("http://w3:1/",))
    assert "http://w1:1/ have exactly.once.source.support=disabled" in found.advice


@pytest.mark.parametrize(("own", "holds"), [(_DISABLED, False), (_PREPARING, False), (_ENABLED, True)])
def test_only_exactly_once_workers_delay_their_tasks(own: ExactlyOnceSourceSupport, holds: bool):
    assert judge_group(own, _members("enabled", "disabled"), _SAME).holds_tasks is holds


def test_members_without_a_setting_delay_nothing():
    found = judge_group(_ENABLED, _members("enabled", ""), _SAME)
    assert (found.unknown, found.holds_tasks) == (("http://w1:1/",), False)


@pytest.mark.parametrize("protocol", [ConnectProtocol.EAGER, ConnectProtocol.SESSIONED])
def test_a_leader_sends_the_settings_of_all_members_to_each(protocol: ConnectProtocol):
    members = {
        "m1": WorkerMetadata(url="http://w1:1/", config_offset=0, support="enabled"),
        "m2": WorkerMetadata(url="http://w2:1/", config_offset=0),
    }
    assign = LeaderAssignor(lambda: ConfiguredWork(0, {}), max_delay_ms=0)
    given = assign(Election(leader="m1", protocol=protocol, members=members, held=None))
    told = {name: assignment.supports for name, assignment in given.items()}
    assert told == dict.fromkeys(members, (("http://w1:1/", "enabled"), ("http://w2:1/", "")))
