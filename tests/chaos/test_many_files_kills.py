"""Workers that are killed while they read thousands of small files: each line is in Kafka once.

The names are long and have no pattern. So one or two tasks get a rule instead of file names, and five tasks get names.
"""

from __future__ import annotations

import random
import signal
import uuid
from contextlib import ExitStack
from pathlib import Path

from fencepost.api.source import TASK_ADDITIONS
from fencepost.failpoint import FailPoint
from tests.support.checker import assert_exactly_once, read_offsets, read_topic, values
from tests.support.killed_worker import STRINGS, KilledWorker, at
from tests.support.processes import wait_for
from tests.support.topics import Topics, unique
from tests.support.workers import Group

FILES = 2_000
KILLS = 4


def test_each_line_of_2_000_files_is_there_once_wherever_workers_are_killed(
    bootstrap_servers: str, topics: Topics, tmp_path: Path, chance: random.Random
) -> None:
    folder, topic = tmp_path / "in", topics.create(partitions=3)
    worker = KilledWorker(tmp_path, bootstrap_servers, STRINGS)
    folder.mkdir()
    expected: list[bytes] = []
    for number in range(FILES):
        parts = (uuid.UUID(int=chance.getrandbits(128)).hex for _ in range(3))
        _write(folder / f"0{'-'.join(parts)}.txt", number, expected)

    for run, point in enumerate([*chance.choices(list(FailPoint), k=KILLS), None]):
        # Between runs, files appear and are renamed, and tasks get other shares of the files.
        _write(folder / f"new-{run}.txt", FILES + run, expected)
        named = chance.choice(sorted(folder.glob("0*.txt")))
        named.rename(folder / f"renamed-{run}.txt")
        worker.configure(
            "many",
            {
                "connector.class": "FileSource",
                "files": folder / "*.txt",
                "format": "text",
                "topic": topic,
                "tasks.max": chance.choice([1, 2, 5]),
                "batch.bytes": chance.choice([5_000, 1_000_000]),
            },
        )
        # A run ends by itself if it has too little to read to reach its kill point.
        code, output = worker.run(at(point, chance.randint(1, 3)))
        assert code in ({0} if point is None else {0, -signal.SIGKILL}), f"run {run}: {code} at {point}\n{output}"

    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), expected)
    ends = {str(path): path.stat().st_size for path in folder.iterdir()}
    offsets = {
        partition["filename"]: offset["position"]
        for partition, offset in read_offsets(bootstrap_servers, worker.offsets_topic, "many")
        if offset is not None
    }
    assert {path: end for path, end in offsets.items() if path in ends} == ends


def test_files_that_come_and_are_renamed_while_workers_die_are_read_once(
    bootstrap_servers: str, topics: Topics, tmp_path: Path, chance: random.Random
) -> None:
    """Tasks of many files get most of the new ones while they run. A renamed one goes to another task half of the time."""
    folder, topic, name = tmp_path / "in", topics.create(partitions=3), unique("connector")
    group = Group(tmp_path, bootstrap_servers)
    folder.mkdir()
    expected: list[bytes] = []
    for number in range(FILES):
        _write(folder / f"{number}.txt", number, expected)
    config = {
        "connector.class": "FileSource", "files": str(folder / "*.txt"), "format": "text", "topic": topic, "tasks.max": "2",
        "files.poll.interval.ms": "100",
    }  # fmt: skip

    def wait_until_read() -> None:
        wait_for(lambda: len(read_topic(bootstrap_servers, topic)) >= len(expected), what="all lines are committed")

    with ExitStack() as stack:
        workers = [stack.enter_context(group.worker()) for _ in range(2)]
        assert workers[0].request("PUT", f"/connectors/{name}/config", config).status == 201
        wait_until_read()
        for _ in range(KILLS):
            for _ in range(chance.randint(5, 15)):
                new = folder / f"{len(expected)}.txt"
                _write(new, len(expected), expected)
                if chance.random() < 0.5:
                    wait_until_read()
                if chance.random() < 0.5:
                    new.rename(folder / f"{len(expected)}-renamed.txt")
            workers.pop(chance.randrange(2)).process.kill()
            workers.append(stack.enter_context(group.worker()))
        wait_until_read()

    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), expected)
    assert any(TASK_ADDITIONS.encode() in value for _, value in group.config_records())


def _write(path: Path, number: int, expected: list[bytes]) -> None:
    lines = [f"{number} {line}" for line in range(3)]
    path.write_text("".join(f"{line}\n" for line in lines))
    expected += [line.encode() for line in lines]
