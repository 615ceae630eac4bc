"""The leader's assignments in rebalances of its group."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.distributed.assignor_leader import ConfiguredWork, LeaderAssignor
from fencepost.kafka.group.protocol import Assignment, AssignmentError, ConnectProtocol, Election, WorkerMetadata

DELAY_MS = 10_000


class Group:
    """A leader, and members that apply their assignments at once."""

    def __init__(self, leader: str, *others: str, config_offset: int = 3, task_counts: Mapping[str, int]) -> None:
        self.configured = ConfiguredWork(config_offset, task_counts)
        self.now_ms = 0
        self.members: dict[str, Assignment | None] = dict.fromkeys((leader, *others))
        self.leader = leader
        self.urls = {name: f"url-{name}" for name in ("m1", "m2", "m3", "m4")}
        self.assignors = {
            name: LeaderAssignor(lambda: self.configured, max_delay_ms=DELAY_MS, clock_ms=lambda: self.now_ms)
            for name in self.urls
        }

    @property
    def assignor(self) -> LeaderAssignor:
        return self.assignors[self.leader]

    def rebalance(
        self, protocol: ConnectProtocol = ConnectProtocol.SESSIONED, *, config_offset: int = 3
    ) -> Mapping[str, Assignment]:
        metadata = {
            name: WorkerMetadata(url=self.urls[name], config_offset=config_offset, assignment=held)
            for name, held in self.members.items()
        }
        election = Election(leader=self.leader, protocol=protocol, members=metadata, held=self.members[self.leader])
        given = self.assignor(election)
        for name, assignment in given.items():
            self.members[name] = assignment.revoking_of(self.members[name]).added_to(self.members[name])
        return given

    def held_by(self, name: str) -> tuple[object, ...]:
        held = self.members[name]
        return (*held.connectors, *held.tasks) if held is not None else ()


def test_assignments_name_the_leader_and_how_far_to_read():
    given = Group("m1", "m2", task_counts={"a": 1}, config_offset=4).rebalance(config_offset=3)
    assert {(one.leader, one.leader_url, one.config_offset, one.error) for one in given.values()} == {
        ("m1", "url-m1", 4, AssignmentError.NONE)
    }


def test_a_leader_that_lags_behind_a_member_assigns_nothing():
    group = Group("m1", "m2", task_counts={"a": 1})
    given = group.rebalance(config_offset=4)
    assert all(one.failed and one.config_offset == 4 and not one.connectors for one in given.values())
    group.configured = ConfiguredWork(4, {"a": 1})
    assert group.rebalance(config_offset=4)["m1"].connectors == ("a",)


def test_a_leader_knows_the_owner_of_all_work():
    group = Group("m1", "m2", task_counts={"a": 1})
    group.rebalance()
    assert group.assignor.owner_url("a") == "url-m1"
    assert group.assignor.owner_url(ConnectorTaskId("a", 0)) == "url-m2"
    assert group.assignor.owner_url("gone") is None


def test_a_new_leader_holds_back_the_work_of_the_previous_one():
    group = Group("m1", "m2", task_counts={"a": 1, "b": 1})
    group.rebalance()
    kept = group.held_by("m2")
    del group.members["m1"]
    group.leader = "m2"
    given = group.rebalance()
    assert given["m2"].delay_ms == DELAY_MS
    assert group.held_by("m2") == kept
    group.now_ms = DELAY_MS
    assert group.rebalance()["m2"].delay_ms == 0
    assert len(group.held_by("m2")) == 4


def test_a_new_leader_that_is_behind_holds_back_the_previous_ones_tasks():
    group = Group("m1", "m2", task_counts={"a": 1, "b": 1})
    group.rebalance()
    del group.members["m1"]
    group.leader = "m2"
    assert group.rebalance(config_offset=4)["m2"].failed
    group.configured = ConfiguredWork(4, {"a": 1, "b": 1})
    assert group.rebalance(config_offset=4)["m2"].delay_ms == DELAY_MS


def test_a_previous_leader_that_returned_gets_its_work_back():
    group = Group("m1", "m2", task_counts={"a": 1, "b": 1})
    group.rebalance()
    work_of_m1 = group.held_by("m1")
    del group.members["m1"]
    group.leader = "m2"
    group.members["m3"] = None
    group.urls["m3"] = "url-m1"
    assert group.rebalance()["m3"].delay_ms == 0
    assert group.held_by("m3") == work_of_m1


def test_a_leader_does_not_use_its_knowledge_of_long_ago():
    group = Group("m1", "m2", task_counts={"a": 1, "b": 1})
    group.rebalance()
    # The leader was expelled, like m2, and leads again as a member without work.
    group.members = {"m1": None, "m3": None}
    given = group.rebalance()
    assert all(one.delay_ms == 0 for one in given.values())
    assert len(group.held_by("m1") + group.held_by("m3")) == 4


def test_the_eager_protocol_assigns_everything_again():
    group = Group("m1", "m2", task_counts={"a": 1, "b": 1})
    given = group.rebalance(ConnectProtocol.EAGER)
    assert given["m1"].connectors == ("a",)
    assert given["m2"].connectors == ("b",)
    assert not any(one.revokes or one.failed for one in given.values())


def test_before_a_group_becomes_eager_all_members_stop():
    group = Group("m1", "m2", task_counts={"a": 1})
    group.rebalance()
    given = group.rebalance(ConnectProtocol.EAGER)
    assert all(one.error == AssignmentError.CONFIG_MISMATCH and not one.connectors for one in given.values())
    group.members = dict.fromkeys(group.members)
    assert group.rebalance(ConnectProtocol.EAGER)["m1"].connectors == ("a",)
