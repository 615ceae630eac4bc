"""Array texts are split by PostgreSQL's rules."""

from __future__ import annotations

import pytest

from fencepost.connectors.postgres.types.arrays import split_array


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ("{1,2}", ["1", "2"]),
        ('{NULL,"NULL",null}', [None, "NULL", "null"]),
        (r'{"a \"quoted\" one","back\\slash","{1,2}",""}', ['a "quoted" one', "back\\slash", "{1,2}", ""]),
        ("[2:3]={1,2}", ["1", "2"]),
        ('{"line\nend"}', ["line\nend"]),
    ],
)
def test_an_arrays_text_is_split_into_items(text: str, items: list[str | None]):
    assert split_array(text) == items


@pytest.mark.parametrize("text", ["{{1},{2}}", "[0:1][0:0]={{1},{2}}", '{"open}', "{1;2,}x}"])
def test_anything_but_a_list_of_items_is_refused(text: str):
    with pytest.raises(ValueError, match="it is"):
        split_array(text)
