"""The demo of an outbox in PostgreSQL: every event is in Kafka once and has its order, with two kills."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes import Process


def test_the_demo_finds_every_event_once_although_the_worker_was_killed_twice(tmp_path: Path):
    with Process.fencepost("demo-outbox", log_file=tmp_path / "demo.log") as demo:
        assert demo.wait(540) == 0, demo.output
        output = demo.output
    assert output.count("killed (SIGKILL)") == 2, output
    lines = {line.strip("│ \n").split("│")[0].strip(): line for line in output.splitlines() if "│" in line}
    for name in ("events lost", "events found twice", "events without their order"):
        assert lines[name].rstrip("│ ").endswith(" 0"), output
