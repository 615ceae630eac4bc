"""Which task reads which file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fencepost.connectors.distribution import MANY, distribute

_FILES = [f"/data/{number:02}.csv" for number in range(40)]


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=30, unique=True), st.integers(1, 30))
def test_each_file_belongs_to_one_task_and_tasks_have_equally_many(files: list[str], most: int) -> None:
    tasks = distribute(files, min(most, len(files)))
    assert sorted(file for task in tasks for file in task) == sorted(files)
    assert max(map(len, tasks)) - min(map(len, tasks)) <= 1
    assert all(task == sorted(task, key=files.index) for task in tasks)


def test_the_order_of_the_files_does_not_matter() -> None:
    distributed = distribute(_FILES, 7)
    assert [sorted(task) for task in distribute(_FILES[::-1], 7)] == distributed


def test_most_tasks_keep_their_files_when_one_is_added() -> None:
    unchanged = 0
    for count in range(20, 39):
        before, after = distribute(_FILES[:count], 8), distribute(_FILES[: count + 1], 8)
        unchanged += sum(map(list.__eq__, before, after))
    assert unchanged > 19 * 8 / 2


def test_a_path_that_is_not_text_is_distributed() -> None:
    assert distribute(["/data/\udcff"], 1) == [["/data/\udcff"]]


def test_of_many_files_a_new_one_changes_one_task_and_a_new_task_takes_its_share() -> None:
    many = [f"/data/{number:05}.csv" for number in range(MANY * 5 + 1)]
    before = distribute(many[:-1], 4)
    assert sorted(file for task in before for file in task) == many[:-1]
    assert max(map(len, before)) < 1.1 * min(map(len, before))
    assert sum(map(list.__ne__, before, distribute(many, 4))) == 1
    after = distribute(many[:-1], 5)
    assert all(set(kept) <= set(task) for kept, task in zip(after, before, strict=False))
    assert distribute(many[::-1], 5) == [share[::-1] for share in distribute(many, 5)]
