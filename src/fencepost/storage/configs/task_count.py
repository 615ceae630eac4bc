"""Task count records: how many tasks of a connector must be fenced before its next ones may start (KIP-618).

A record in the config topic has the number of tasks with which a connector last ran. Its key is
`tasks-fencing-<connector>`, its value `{"task-count":N}`. The KIP's text has `tasks-count-<connector>` and
`{"tasks":N}` instead; such records are read as well.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from fencepost.api.foreign_json import parse_json
from fencepost.api.secrets import SECRETS
from fencepost.storage.compact_json import compact

if TYPE_CHECKING:
    from fencepost.kafka.records.columns import Row

_LOG: Final = logging.getLogger(__name__)

# The prefix of the key and the field of the value: first as Apache's code writes them, then as the KIP's text has them.
_SPELLINGS: Final = (("tasks-fencing-", "task-count"), ("tasks-count-", "tasks"))

_SHOWN: Final = 200


def leader_transactional_id(group_id: str) -> str:
    """Return the id under which a group's leader writes to the config topic."""
    return f"connect-cluster-{group_id}"


def task_transactional_id(group_id: str, connector: str, task: int) -> str:
    """Return the id under which a source task writes."""
    return f"{group_id}-{connector}-{task}"


def fencing_plan(
    old_count: int | None, new_count: int, *, unchanged: Collection[int] = frozenset()
) -> list[int] | None:
    """Return which tasks of the old generation must be fenced before `new_count` tasks may start.

    Tasks that are `unchanged` keep running. The result is None if fencing is not needed: either no task ever ran
    (`old_count` is None), or there is one task before and after. In this case the new task fences the old one by taking
    over its transactional id. At-least-once tasks have no transactional ids, and do not count.
    """
    if old_count is None or old_count == new_count == 1:
        return None
    return [task for task in range(old_count) if task not in unchanged]


def encode_task_count(connector: str, count: int | None) -> Row:
    """Return the key and the value of a connector's task count record. For None, it is a tombstone."""
    prefix, field = _SPELLINGS[0]
    return f"{prefix}{connector}".encode(), None if count is None else compact({field: count})


def decode_task_count(key: bytes | None, value: bytes | None) -> tuple[str, int | None] | None:
    """Return the connector and its count; None for any other record. For a null value, the count is None."""
    text = (key or b"").decode(errors="replace")
    for prefix, field in _SPELLINGS:
        connector = text.removeprefix(prefix)
        if connector in ("", text):
            continue
        if value is None:
            return connector, None
        count = _count_in(value, field)
        if count is None:
            shown = SECRETS.excerpt(repr(value), _SHOWN)
            _LOG.warning("The task count record %s has the malformed value %s: it is ignored", text, shown)
            return None
        return connector, count
    return None


def _count_in(value: bytes, field: str) -> int | None:
    try:
        count = parse_json(value)[field]
    except (ValueError, LookupError, TypeError):
        return None
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None
