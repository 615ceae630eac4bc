"""A worker of a group as the other members see it, and the members as the worker sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from fencepost.api.allowed_paths import PathsOfWorker
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.core.group_topics import GroupTopics
from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.kafka.group.protocol import WorkerFiles, WorkerTopics


@dataclass(slots=True)
class GroupView:
    """The members of the group in its last known generation. `url` is this worker's advertised address."""

    url: str
    files: WorkerFiles
    """The directories that connectors may read on this worker, as announced to the group."""
    mixed: MixedGroup
    """The members' settings."""
    topics: GroupTopics
    """The members' internal topics."""
    generation: int | None = None
    """The generation of the group in which this worker is a member; None outside of the group."""
    members: tuple[str, ...] = ()
    """The URLs of the members, as far as their leader reported them."""
    other_files: tuple[PathsOfWorker, ...] = ()
    """The directories that connectors may read on the other members, for each member that differs from this worker."""

    @classmethod
    def of(cls, config: WorkerConfig, url: str) -> Self:
        """Return the view of a worker that has not joined its group yet."""
        stores = (config.offset_storage, config.config_storage, config.status_storage)
        own = WorkerTopics(*(store.name for store in stores))
        return cls(
            url,
            _announced(str(Path.cwd()), config.allowed_paths.paths),
            MixedGroup(str(config.exactly_once_source_support)),
            GroupTopics(own, _group_url(url)),
        )

    @property
    def group_url(self) -> str:
        """This worker's name among the members of its group."""
        return _group_url(self.url)

    @property
    def worker_id(self) -> str:
        """This worker's name in statuses, as host:port."""
        return urlsplit(self.url).netloc


def _announced(directory: str, paths: Sequence[str] | None) -> WorkerFiles:
    """Return the directories as text that can be encoded in UTF-8. Names of directories may contain other bytes."""
    directory, *allowed = (path.encode(errors="backslashreplace").decode() for path in (directory, *(paths or ())))
    return WorkerFiles(directory, None if paths is None else tuple(allowed))


def _group_url(url: str) -> str:
    return f"{url.rstrip('/')}/"
