"""Files that a task gets while it runs: a text in its configuration that only gets longer, so that it is not restarted.

    connector   a scan finds new names alone  --> tasks of many files get longer additions, and go on
                anything else                 --> tasks get other configurations, and restart
    task        reads its additions at each poll; for a new one, the committed offset of its name, and then the file

No two tasks may read one file, neither at the same time nor one after the other, unless the second one starts with the
offset of the first. A restart ensures that with a fencing round between the two. Without a restart it holds because

- each file belongs to one task, by its name, and the connector decides which: a task does not read a name on its own that
  the connector did not see;
- an addition is an object, whose offset no other URL gets, or a file that had no other name: no file of an earlier scan
  and no committed offset has its inode (see `former_names`). A renamed file has an old name in the configuration of the task that gets it, which is not an addition;
- what a task loses, by a rename or because the file is gone, is not an addition either: it restarts, and its former run is
  fenced before any task can get additions again. The config topic says that, not this connector (see `storage.configs.state`):
  whatever task had the file's name before can commit nothing any more when the task that gets it reads its offset;
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
"""The maximum number of characters of additions: then the task gets another configuration, and is restarted."""


def with_additions(config: Mapping[str, str], added: Mapping[str, int | None]) -> dict[str, str] | None:
    """Return a task's properties with more files, each with its inode, None for an object; None if these are too many."""
    lines = "".join(without_placeholders(json.dumps(line)) + "\n" for line in added.items())
    text = config.get(TASK_ADDITIONS, "") + lines
    return {**config, TASK_ADDITIONS: text} if len(text) <= MOST_CHARACTERS else None


def additions_in(text: str) -> dict[str, int | None]:
    """Return the files in additions, or in a part of them, with their inodes. Raises DataError for anything else."""
    try:
        return dict(map(json.loads, text.splitlines()))
    except (ValueError, TypeError) as error:
        raise DataError(
            f"The property {TASK_ADDITIONS} of the task's configuration is not what FileSource wrote ({error}): restart the "
            "connector, so that it gives its tasks new configurations"
        ) from error
