"""Log positions (LSNs), and the ends of timelines."""

from __future__ import annotations

import pytest

from fencepost.api.errors import DataError
from fencepost.connectors.postgres.server.lsn import lsn_text, parse_lsn, timeline_ends

HISTORY = "1\t0/3000000\tno recovery target specified\n\n# a comment\n2\t1/5000000\tno recovery target specified\n"


def test_lsns_are_written_as_postgresql_does():
    assert lsn_text(0x16B374D848) == "16/B374D848"
    assert parse_lsn("16/B374D848") == 0x16B374D848


@pytest.mark.parametrize("text", ["", "16", "16/", "/1", "16/G", "16/B374D848/1", "123456789/1", "0x1/1", " 1/1"])
def test_a_text_that_is_not_an_lsn_is_refused(text: str):
    with pytest.raises(DataError, match="write-ahead log"):
        parse_lsn(text)


def test_a_history_has_the_end_of_each_earlier_timeline():
    assert timeline_ends(HISTORY) == {1: 0x3000000, 2: 0x105000000}
    assert timeline_ends("") == {}
