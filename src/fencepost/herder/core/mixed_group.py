"""Decides whether the settings of a group's members allow exactly-once delivery. No I/O.

Once one member is `enabled`, a member whose `exactly.once.source.support` is `disabled` breaks exactly-once delivery
for all. If this member leads, it writes to the config topic without transactions, so a former leader can still write.
Besides, its tasks cannot be fenced. Members that are `preparing` are harmless: that is the purpose of this step of a
rolling upgrade. A member with other internal topics (`group_topics`) breaks exactly-once delivery as well. Workers of
Kafka Connect do not announce their settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fencepost.config.worker_config import ExactlyOnceSourceSupport
from fencepost.herder.core.group_topics import GroupTopics


@dataclass(frozen=True, slots=True)
class MixedGroup:
    """The members that break exactly-once delivery, and those with an unknown setting, by their URLs.

    `support` is `exactly.once.source.support` of the worker that created this object. `known` is False for a worker
    outside of its group, which does not know the other members. `disabled` are the `breaking` members with that value
    of the setting. `other_topics` are all members whose internal topics differ from the leader's.
    """

    support: str
    breaking: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    known: bool = True
    disabled: tuple[str, ...] = ()
    other_topics: tuple[str, ...] = ()

    @property
    def holds_tasks(self) -> bool:
        """Whether this worker must not start exactly-once tasks, because other members are disabled."""
        return bool(self.disabled) and self.support == ExactlyOnceSourceSupport.ENABLED

    @property
    def advice(self) -> str:
        """The problem with `disabled` members, and the remedy."""
        return (
            f"Exactly-once delivery does not hold in this group: the worker(s) {', '.join(self.disabled)} have "
            "exactly.once.source.support=disabled while others have enabled. Set it to enabled on them as well, or "
            "first to preparing if you do it one worker after the other, and restart them"
        )


def judge_group(own: ExactlyOnceSourceSupport, supports: Iterable[tuple[str, str]], topics: GroupTopics) -> MixedGroup:
    """Return the findings for a group, from the URL and the setting of each member; the setting is empty if unknown."""
    reported = sorted(set(supports))
    if not any(support == ExactlyOnceSourceSupport.ENABLED for _, support in reported):
        return MixedGroup(str(own), other_topics=topics.differing)
    disabled = tuple(url for url, support in reported if support == ExactlyOnceSourceSupport.DISABLED)
    return MixedGroup(
        str(own),
        breaking=tuple(sorted({*disabled, *topics.breaking})),
        disabled=disabled,
        other_topics=topics.differing,
        unknown=tuple(url for url, support in reported if not support),
    )
