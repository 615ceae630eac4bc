"""The simulation of large groups counts what it says, shown with a small group."""

from __future__ import annotations

import re

import pytest

from tests.sim.scale import ScaleWorld, run


def test_each_task_of_a_simulated_group_commits_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(ScaleWorld(workers=3, connectors=4, tasks=5, delay_s=5.0)) == []

    said = capsys.readouterr().out
    create = said[said.index("\ncreate:") : said.index("\nidle:")]
    assert re.search(r"offsets: 20 transactions", create)
    assert re.search(r"fencing rounds 4\b", create)
    # Task configurations are in one transaction with a record for each task and a commit; others have one record.
    assert re.search(r"configs: 16 transactions .*, 32 records", create)
    idle = said[said.index("\nidle:") : said.index("\nchange:")]
    assert re.search(r"generations 0, .*\n.*requests: none", idle)
