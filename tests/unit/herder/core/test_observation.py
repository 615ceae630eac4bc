from __future__ import annotations

from fencepost.herder.core.observation import message_of


def test_a_message_is_found_in_traces_of_java_and_of_python():
    assert message_of("java.io.IOException: gone\n\tat a.B.c") == "java.io.IOException: gone"
    assert message_of("Traceback (most recent call last):\n  File x\nValueError: no\nmore") == "ValueError: no"
    assert message_of(" \n") is None


def test_a_long_message_is_cut_to_keep_the_table_of_connectors_readable():
    message = message_of("ValueError: " + "x" * 10_000)

    assert message is not None
    assert message.startswith("ValueError: xxx")
    assert message.endswith(" ...")
    assert len(message) == 500
