from __future__ import annotations

import json
import random
import uuid

import pytest

from fencepost import DataError
from fencepost.connectors.distribution import PathHashes, distribute
from fencepost.connectors.files.discovery.file_rule import TASK_RULE, FileRule
from fencepost.connectors.files.discovery.shares import Share, TaskPlace

_CHANCE = random.Random(7)
FILES = {f"/data/in/{uuid.UUID(int=_CHANCE.getrandbits(128))}.json": number for number in range(1, 20_001)}


def read(config: dict[str, str]) -> FileRule:
    rule = FileRule.from_config(config)
    assert rule is not None
    return rule


def listed(rule: FileRule, inodes: dict[str, int]) -> list[str] | None:
    hashes = PathHashes()
    return rule.seen_files({path: inodes[path] for path in rule.candidates(inodes, hashes)}, hashes)


def shares(tasks: int) -> list[dict[str, int]]:
    return [{file: FILES[file] for file in share} for share in distribute(list(FILES), tasks)]


@pytest.mark.parametrize("tasks", [1, 4])
def test_names_without_a_pattern_take_less_than_100_kb(tasks: int) -> None:
    for task, share in enumerate(shares(tasks)):
        config = Share(list(share), share).in_config(TaskPlace(task, tasks, PathHashes()))
        assert config.keys() == {TASK_RULE}
        assert len(json.dumps(config)) < 80_000
        assert listed(read(config), FILES) == list(share)
        assert Share.of(config) == Share((), {})


def test_each_file_is_of_one_task_whatever_the_machines_list_meanwhile() -> None:
    """The connector saw 20,000 files. Since then some were renamed, deleted, replaced and created."""
    rules = [FileRule.of(task, 3, share, PathHashes()) for task, share in enumerate(shares(3))]
    names = list(FILES)
    now = dict(FILES)
    gone, renamed, replaced = names[:100], names[100:200], names[200:300]
    for name in gone:
        del now[name]
    for name in renamed:
        now[f"{name}.1"] = now.pop(name)
    for number, name in enumerate(replaced):
        now[name] = 50_000 + number
    now |= {f"/data/in/new-{number}": 60_000 + number for number in range(500)}
    found = [listed(rule, now) for rule in rules]
    assert sorted(name for names in found for name in names or ()) == sorted(names[300:])
    assert all(rule.count > len(names or ()) for rule, names in zip(rules, found, strict=True))


def test_too_many_other_files_are_not_taken_for_the_task_s() -> None:
    rule = FileRule.of(0, 1, dict(FILES), PathHashes())
    assert listed(rule, {**FILES, **{f"/data/in/new-{number}": number for number in range(30_000)}}) is None
    assert listed(rule, {}) is None


def test_a_renamed_file_is_of_the_task_that_was_given_it() -> None:
    own, other = shares(2)
    moved = next(iter(other))
    rule = read(FileRule.of(0, 2, own | {moved: other[moved]}, PathHashes()).in_config())
    assert set(listed(rule, FILES) or ()) == {*own, moved}
    rest = {file: inode for file, inode in other.items() if file != moved}
    rule = read(FileRule.of(1, 2, rest, PathHashes(), [moved]).in_config())
    assert set(listed(rule, FILES) or ()) == other.keys() - {moved}


def test_names_are_found_whatever_inodes_they_have() -> None:
    rule = FileRule.of(0, 1, dict(FILES), PathHashes())
    here = {path: inode + 1_000_000 for path, inode in FILES.items()}
    assert rule.seen_files(here, PathHashes()) is None
    assert rule.numbers_differ(here)
    assert not rule.numbers_differ(FILES)
    assert not rule.numbers_differ({})
    assert rule.seen_names([*FILES, "/data/in/new"], PathHashes()) == list(FILES)


@pytest.mark.parametrize("wrong", ["", "[]", "{}", '{"names": "", "files": ""}', '{"names": 1}'])
def test_a_rule_that_is_damaged_is_refused(wrong: str) -> None:
    with pytest.raises(DataError, match=r"is not what FileSource wrote .*: restart the connector"):
        FileRule.from_config({TASK_RULE: wrong})
