"""The demo as a new user runs it: real flights through Spark, with two kills."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes import Process


def test_the_demo_finds_every_flight_once_although_the_worker_was_killed_twice(tmp_path: Path):
    with Process.fencepost("demo", log_file=tmp_path / "demo.log") as demo:
        assert demo.wait(540) == 0, demo.output
        output = demo.output
    assert output.count("killed (SIGKILL)") == 2, output
    lines = {line.strip("│ \n").split("│")[0].strip(): line for line in output.splitlines() if "│" in line}
    assert "336,776" in lines["records found at read_committed"]
    assert lines["duplicates"].rstrip("│ ").endswith(" 0")
    assert lines["lost"].rstrip("│ ").endswith(" 0")
