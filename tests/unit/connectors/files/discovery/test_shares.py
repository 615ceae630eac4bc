from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost import DataError
from fencepost.connectors.distribution import PathHashes
from fencepost.connectors.files.discovery import shares
from fencepost.connectors.files.discovery.file_rule import TASK_RULE, FileRule
from fencepost.connectors.files.discovery.shares import (
    MOST_NAMED,
    TASK_FILES,
    TASK_INODES,
    TASK_PACKED,
    Share,
    TaskPlace,
)

_paths = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(inodes=st.dictionaries(_paths, st.none() | st.integers(1, 2**63), max_size=20), looks_again=st.booleans())
def test_packed_files_are_unpacked_unchanged(*, inodes: dict[str, int | None], looks_again: bool) -> None:
    share = Share(list(inodes), inodes if looks_again else None)
    packed = {TASK_PACKED: shares._packed_files(share.files, share.inodes)}
    assert Share.of(packed) == share


def test_few_files_are_listed_by_name() -> None:
    share = Share(["/in/a", "/in/b"], {"/in/a": 1, "/in/b": None}, {"/in/b": ["/in/c"]})
    assert share.in_config() == {
        "task.files": '["/in/a", "/in/b"]',
        "task.renamed": '{"/in/b": ["/in/c"]}',
        "task.inodes": '{"/in/a": 1, "/in/b": null}',
    }
    assert Share.of(share.in_config()) == share


@pytest.mark.parametrize("place", [None, TaskPlace(0, 1, PathHashes())], ids=["named", "by a rule"])
def test_no_name_in_a_configuration_is_a_placeholder(place: TaskPlace | None) -> None:
    chance = random.Random(0)
    files = [f"/in/{chance.randbytes(50).hex()}${{env:HOME}}" for _ in range(1 if place is None else 2_000)]
    formers = {files[0]: ["/in/${env:HOME}"]}
    share = Share(files, {file: number for number, file in enumerate(files, 1)}, formers, {"/in": ["/${env:IN}"]})
    given = share.in_config(place)
    assert (TASK_RULE in given) == (place is not None)
    assert "$" not in "".join(given.values())
    read = Share.of(given)
    assert (read.renamed, read.spellings) == (share.renamed, share.spellings)
    if place is None:
        assert read == share


def test_a_configuration_of_many_names_of_an_older_version_is_read() -> None:
    files = [f"/in/{number}" for number in range(MOST_NAMED * 5)]
    inodes = {file: number for number, file in enumerate(files)}
    assert Share.of({TASK_FILES: json.dumps(files), TASK_INODES: json.dumps(inodes)}) == Share(files, inodes)


def test_a_few_files_with_long_names_are_packed() -> None:
    files = [f"/in/{'a long name ' * 20}{number}" for number in range(MOST_NAMED)]
    share = Share(files, {file: number for number, file in enumerate(files)})
    assert share.in_config().keys() == {TASK_PACKED}
    assert Share.of(share.in_config()) == share


@pytest.mark.parametrize("count", [MOST_NAMED + 1, 40_000])
def test_names_with_a_pattern_are_packed_as_long_as_they_are_short(count: int) -> None:
    inodes = {f"/in/{number:06}": number for number in range(count)}
    config = Share(list(inodes), inodes).in_config(TaskPlace(0, 1, PathHashes()))
    assert config.keys() == {TASK_PACKED if count == MOST_NAMED + 1 else TASK_RULE}
    assert sum(map(len, config.values())) < 80_000


def test_25_000_files_take_less_than_100_kb() -> None:
    numbers = random.Random(7).sample(range(1_000_000), 25_000)
    files = [f"/data/spool/in/events-{number:06}.json" for number in sorted(numbers)]
    config = Share(files, {file: 10_000_000 + number for number, file in enumerate(files)}).in_config()
    assert config.keys() == {TASK_PACKED}
    assert len(config[TASK_PACKED]) < 100_000


def test_many_objects_take_less_than_100_kb() -> None:
    objects = [f"s3://incoming/{number * 7919 % 1_000_003:06}.json" for number in range(50_000)]
    config = Share(objects, {}).in_config(TaskPlace(0, 1, PathHashes()))
    assert sum(map(len, config.values())) < 80_000
    rule = FileRule.from_config(config)
    assert rule is not None
    assert rule.seen_files(dict.fromkeys([*objects, "s3://incoming/new"]), PathHashes()) == objects


def test_thousands_of_old_names_take_less_than_100_kb() -> None:
    files = [f"/var/log/service/app-{number:04}.log.1" for number in range(10_000)]
    renamed = {file: [file.removesuffix(".1")] for file in files}
    share = Share(files, dict.fromkeys(files, 1), renamed)
    config = share.in_config()
    assert len(config["task.renamed.packed"]) < 100_000
    assert Share.of(config) == share


def test_packed_files_that_are_damaged_are_refused() -> None:
    packed = Share([f"/in/{number}" for number in range(MOST_NAMED + 1)]).in_config()[TASK_PACKED]
    for wrong in ("?", packed[:-4], "", packed[: len(packed) // 2]):
        with pytest.raises(DataError, match=r"is not what FileSource wrote .*: restart the connector"):
            Share.of({TASK_PACKED: wrong})
