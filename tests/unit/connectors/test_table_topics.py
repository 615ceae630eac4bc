from __future__ import annotations

from fencepost.api.topic_names import OTHER_CHARACTERS
from fencepost.connectors.table_topics import shared_topic, topic_part


def test_characters_that_topics_lack_become_underscores() -> None:
    assert topic_part("public.Order lines-2_ä") == "public.Order_lines-2__"
    assert OTHER_CHARACTERS.search(topic_part("a\n$/\\ü")) is None


def test_tables_that_would_share_a_topic_are_named() -> None:
    assert shared_topic([("a b", "t.a_b"), ("c", "t.c"), ("a$b", "t.a_b")]) == (
        "The tables 'a b' and 'a$b' would go to one topic, t.a_b"
    )
    assert shared_topic([("a", "t.a"), ("b", "t.b")]) is None
