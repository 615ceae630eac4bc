"""Whether the members of a group use the same internal topics. No I/O.

A member with another offsets topic would not find the offsets of its tasks, and would send all their records again. A
member with another config topic knows neither the connectors nor which tasks were fenced. Members are compared with the
leader, because the group runs the connectors in the leader's config topic.

    AGREEING ──a member differs from the leader──> all members start no tasks ──it left, or agrees──> AGREEING
                                                     │
                                                     └─ the leader left: members that differed from it still start none,
                                                        until they agree with another member

Members that announce no topics, such as Kafka Connect's workers, do not count as differing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fencepost.kafka.group.protocol import UNKNOWN_TOPICS, Assignment, WorkerTopics

_HARMLESS: Final = "status"
"""The topic that may differ: with another status topic a worker shows wrong states, but delivery is not affected."""


@dataclass(frozen=True, slots=True)
class GroupTopics:
    """The internal topics of this worker, of the leader, and of other members that differ from the leader.

    The field `leader` is UNKNOWN_TOPICS if the group's leader announced no topics. After a change of the leader, the
    field may keep the topics of the previous leader: see the module's diagram.
    """

    own: WorkerTopics
    url: str = ""
    leader: WorkerTopics = UNKNOWN_TOPICS
    others: tuple[tuple[str, WorkerTopics], ...] = ()

    @property
    def differing(self) -> tuple[str, ...]:
        """The URLs of members that differ from the leader."""
        return tuple(sorted({url for url, _ in self.others}))

    @property
    def breaking(self) -> tuple[str, ...]:
        """The URLs of members whose tasks would not find their offsets or configurations."""
        return tuple(sorted({url for url, topics in self.others if _breaks(topics, self.leader)}))

    @property
    def holds_tasks(self) -> bool:
        """Whether tasks must not be started."""
        return bool(self.breaking)

    @property
    def knows_connectors(self) -> bool:
        """Whether this worker uses the config topic of its group."""
        return self.leader == UNKNOWN_TOPICS or self.own.config == self.leader.config

    @property
    def advice(self) -> str:
        """The members that differ, and the remedy; empty if no member differs."""
        if not self.others:
            return ""
        members = "; ".join(
            f"{url} has {named} (the leader: {expected})"
            for url, topics in self.others
            for named, expected in [_difference(topics, self.leader)]
        )
        return (
            f"The workers of this group do not use the same internal topics: {members}. Give all workers of the "
            "group the same, and restart those that had others"
        )


def judge_topics(former: GroupTopics, assignment: Assignment) -> GroupTopics:
    """Compare the internal topics of a group's members, as the group's leader announced them.

    `former` is this worker's result for the previous generation.
    """
    own, url = former.own, former.url
    leader = assignment.leader_topics
    known = [pair for pair in assignment.other_topics if UNKNOWN_TOPICS not in (leader, pair[1])]
    found = GroupTopics(own, url, leader, tuple(known))
    if not _breaks(own, former.leader) or _breaks(own, found.leader):
        return found
    # This worker's topics differed from the previous leader's topics, and agree with the new leader's topics. But this
    # worker may be the new leader itself. So the agreement only counts if another member agrees, too.
    if _peers(assignment) > 0:
        return found
    others = {(member, topics) for member, topics in known if topics != former.leader}
    return GroupTopics(own, url, former.leader, tuple(sorted({*others, (url, own)})))


def _peers(assignment: Assignment) -> int:
    """Return how many other members use the leader's topics. Only for a worker that uses these topics itself."""
    known = assignment.leader_topics != UNKNOWN_TOPICS
    return len(assignment.supports) - len(assignment.other_topics) - 1 if known else 0


def _breaks(topics: WorkerTopics, leader: WorkerTopics) -> bool:
    return leader != UNKNOWN_TOPICS and topics._replace(**{_HARMLESS: leader.status}) != leader


def _difference(topics: WorkerTopics, leader: WorkerTopics) -> tuple[str, str]:
    """Return the properties of a member that differ from the leader's, and the leader's values."""
    differing = [
        (f"{store}.storage.topic={topic}", expected)
        for store, topic, expected in zip(WorkerTopics._fields, topics, leader, strict=True)
        if topic != expected
    ]
    return ", ".join(named for named, _ in differing), ", ".join(expected for _, expected in differing)
