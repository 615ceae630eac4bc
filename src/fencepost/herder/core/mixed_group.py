"""Whether the members of a group are set such that exactly-once delivery holds. No I/O.

A member whose `exactly.once.source.support` is `disabled` breaks it for all, once another one is `enabled`: as the
leader it writes plainly to the config topic, where a dead leader still can, and its tasks cannot be fenced. Members
that are `preparing` do no harm: that is what the step of a rolling upgrade is for. Workers of Kafka Connect do not tell
what they are set to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fencepost.config.worker_config import ExactlyOnceSourceSupport


@dataclass(frozen=True, slots=True)
class MixedGroup:
    """The members, by their URLs, that break exactly-once delivery, and those of which that is not known.

    `support` is the `exactly.once.source.support` of the worker that this was found by. Out of its group it knows of no
    others: `known` is False then.
    """

    support: str
    breaking: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    known: bool = True

    @property
    def holds_tasks(self) -> bool:
        """Whether this worker must not start tasks that would deliver exactly once."""
        return bool(self.breaking) and self.support == ExactlyOnceSourceSupport.ENABLED

    @property
    def advice(self) -> str:
        """What is wrong, if there are `breaking` members, and what to do."""
        return (
            f"Exactly-once delivery does not hold in this group: the worker(s) {', '.join(self.breaking)} have "
            "exactly.once.source.support=disabled while others have enabled. Set it to enabled on them as well, or "
            "first to preparing where it has to be done one worker after the other, and restart them"
        )


def judge_group(own: ExactlyOnceSourceSupport, supports: Iterable[tuple[str, str]]) -> MixedGroup:
    """Return what is wrong with a group, by the URL and the setting of each member; the setting is empty if unknown."""
    told = sorted(set(supports))
    if not any(support == ExactlyOnceSourceSupport.ENABLED for _, support in told):
        return MixedGroup(str(own))
    return MixedGroup(
        str(own),
        breaking=tuple(url for url, support in told if support == ExactlyOnceSourceSupport.DISABLED),
        unknown=tuple(url for url, support in told if not support),
    )
