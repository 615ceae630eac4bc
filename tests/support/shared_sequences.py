"""A source whose partitions count, as sequence_source's do, and are shared out such that few move with `tasks.max`.

Of n tasks each has the partition of its own number, and the last one those that are left. Partition p of connector c
gives the values `value-<c>-<p>-<seq>`, seq from 1 up to `LIMITS[c]`, which tests in the same process raise; in `STARTS`
they find the partitions of each task that was started, by connector name.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence

from fencepost import SourceRecord, SourceTask
from tests.support.sequence_source import SequenceConnector

LIMITS: defaultdict[str, int] = defaultdict(int)
STARTS: defaultdict[str, list[list[int]]] = defaultdict(list)

_IDLE_SECONDS = 0.01
_PER_POLL = 5


class SharedSequencesConnector(SequenceConnector):
    def task_class(self) -> type[SourceTask]:
        return SharedSequencesTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        partitions = range(int(self._config["partitions"]))
        shares = [[number for number in partitions if min(number, max_tasks - 1) == task] for task in range(max_tasks)]
        common = {key: self._config[key] for key in ("name", "topic")}
        return [{**common, "task.partitions": json.dumps(share)} for share in shares]

    def partitions_follow_task_configs(self, config: Mapping[str, str]) -> bool:  # noqa: ARG002 - the API's
        return True


class SharedSequencesTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._name, self._topic = config["name"], config["topic"]
        numbers = json.loads(config["task.partitions"])
        saved = self.context.offset_reader.offsets([{"number": number} for number in numbers])
        self._seqs = {number: offset["saved"] if offset else 0 for number, offset in zip(numbers, saved, strict=True)}
        self._stopped = threading.Event()
        STARTS[self._name].append(numbers)

    def poll(self) -> Sequence[SourceRecord] | None:
        for number, seq in self._seqs.items():
            last = min(seq + _PER_POLL, LIMITS[self._name])
            if seq < last:
                self._seqs[number] = last
                return [self._record(number, found) for found in range(seq + 1, last + 1)]
        self._stopped.wait(_IDLE_SECONDS)
        return None

    def stop(self) -> None:
        self._stopped.set()

    def _record(self, number: int, seq: int) -> SourceRecord:
        value = f"value-{self._name}-{number}-{seq}"
        return SourceRecord({"number": number}, {"saved": seq}, self._topic, value=value)
