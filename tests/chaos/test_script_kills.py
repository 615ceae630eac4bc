"""Scripts with `fencepost.run` that are killed half-way: each record is in the topic once."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.checker import assert_exactly_once, read_topic
from tests.support.processes import Process, wait_for
from tests.support.topics import unique

KILLS = 4
ROWS = 3_000
SCRIPT = """
import sys, time
import pyarrow as pa
import fencepost

def rows(config, cursor):
    # Frames and rows in turn.
    for number in range(cursor or 0, {rows}, 20):
        time.sleep(0.02)
        middle, end = min(number + 10, {rows}), min(number + 20, {rows})
        yield pa.table({{"n": range(number, middle)}}), middle
        for one in range(middle, end):
            yield {{"n": one}}, one + 1

result = fencepost.run(rows, topic=sys.argv[2], bootstrap_servers=sys.argv[1], options={{"poll.interval.ms": 20}})
print("cursors:", result.cursors)
"""


@pytest.mark.parametrize("version", ["broker", "tv1_broker"])
def test_a_script_that_is_killed_in_mid_run_writes_each_record_once(
    version: str, request: pytest.FixtureRequest, chance: random.Random, tmp_path: Path
):
    broker: EmbeddedBroker = request.getfixturevalue(version)
    servers, topic = broker.bootstrap_servers, unique("killed")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(rows=ROWS))
    command, seen = [sys.executable, str(script), servers, topic], 0
    for number in range(KILLS):
        with Process(command, tmp_path / f"log{number}") as process:

            def goes_on(process: Process = process, before: int = seen) -> bool:
                return not process.running or len(read_topic(servers, topic)) > before

            wait_for(goes_on)
            # The kill may come at any moment of a transaction.
            time.sleep(chance.uniform(0, 0.1))
            assert process.running, process.output
            process.kill()
        seen = len(read_topic(servers, topic))
        assert seen < ROWS
    with Process(command, tmp_path / "last") as process:
        assert process.wait() == 0, process.output
        assert f"cursors: [{ROWS}]" in process.output
    found = [json.loads(record.value or b"")["n"] for record in read_topic(servers, topic)]
    assert_exactly_once(found, range(ROWS))
