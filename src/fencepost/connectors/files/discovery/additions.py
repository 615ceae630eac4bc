"""Files that a task gets while it runs, without a restart. The task's configuration lists them; the list only grows.

    connector   a scan finds only new names   --> tasks with many files get longer additions, and keep running
                a scan finds other changes    --> tasks get other configurations, and restart
    task        reads its additions at each poll; for a new file, it reads the committed offset, and then the file

No two tasks may read one file, neither at the same time nor one after the other, unless the second task starts with the
offset of the first. A restart ensures this with a fencing round between the two tasks. Without a restart, the rule
holds because

- the connector assigns the name of each file to exactly one task, and a task never reads a file whose name the
  connector has not seen;
- an addition is either an object, whose offset belongs to its URL only, or a file that had no other name: no file of an
  earlier scan and no committed offset has its inode (see `former_names`). A renamed file is not an addition, because
  its old name must be in the configuration of the task that gets it;
- a task that loses a file, because the file was renamed or is gone, restarts. The task's previous run is fenced before
  any task can get additions again. This order is ensured by the config topic, not by the connector (see
  `storage.configs.state`). If a new file then has the lost name, another task may get this file as an addition. When
  the other task reads the committed offset of the name, the previous run cannot commit any more;
- `files.settle.ms` holds files back in the connector's scan, before they are in any configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from fencepost.api.errors import DataError
from fencepost.api.source import TASK_ADDITIONS
from fencepost.config.config_transformer import without_placeholders

MOST_CHARACTERS: Final = 16_000
"""The maximum length of a task's additions as text. To get more files, the task is configured anew, and restarts."""


def with_additions(config: Mapping[str, str], added: Mapping[str, int | None]) -> dict[str, str] | None:
    """Return a task's properties with more files added, or None if the additions would be too long.

    `added` has the inode of each file, None for an object.
    """
    lines = "".join(without_placeholders(json.dumps(line)) + "\n" for line in added.items())
    text = config.get(TASK_ADDITIONS, "") + lines
    return {**config, TASK_ADDITIONS: text} if len(text) <= MOST_CHARACTERS else None


def additions_in(text: str) -> dict[str, int | None]:
    """Return the files in a task's additions, each with its inode. The text may lack the first lines of the additions.

    Raises DataError for any other text.
    """
    try:
        return dict(map(json.loads, text.splitlines()))
    except (ValueError, TypeError) as error:
        raise DataError(
            f"The property {TASK_ADDITIONS} of the task's configuration is not what FileSource wrote ({error}): restart the "
            "connector, so that it gives its tasks new configurations"
        ) from error
