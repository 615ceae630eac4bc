"""The work of members after the leader's changes, and the protocols that they offer."""

from __future__ import annotations

from fencepost.config.ids import ConnectorTaskId
from fencepost.kafka.group.protocol import Assignment, ConnectProtocol

_CHANGE = Assignment(
    connectors=("a",),
    tasks=(ConnectorTaskId("a", 0), ConnectorTaskId("b", 2)),
    revoked_connectors=("c",),
)


def test_a_change_is_added_to_a_members_work():
    held = Assignment(connectors=("c", "d"), tasks=(ConnectorTaskId("d", 0),))
    whole = _CHANGE.added_to(held)
    assert whole.connectors == ("a", "d")
    assert whole.tasks == (ConnectorTaskId("a", 0), ConnectorTaskId("b", 2), ConnectorTaskId("d", 0))
    assert _CHANGE.added_to(None) is _CHANGE


def test_revocations_of_work_that_does_not_run_are_left_out():
    assert _CHANGE.revoking_of(Assignment(connectors=("c",))).revoked_connectors == ("c",)
    assert not _CHANGE.revoking_of(Assignment(connectors=("a",))).revokes
    assert not _CHANGE.revoking_of(None).revokes


def test_a_worker_offers_its_protocol_and_the_older_ones():
    assert ConnectProtocol.SESSIONED.offered == ("sessioned", "compatible", "default")
    assert ConnectProtocol.COMPATIBLE.offered == ("compatible", "default")
    assert ConnectProtocol.EAGER.offered == ("default",)


def test_the_setting_calls_the_default_protocol_eager():
    assert ConnectProtocol.of_setting("eager") is ConnectProtocol.EAGER
    assert ConnectProtocol.of_setting("sessioned") is ConnectProtocol.SESSIONED
