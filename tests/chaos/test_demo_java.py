"""The demo with Debezium's jar and MariaDB: every change is in Kafka once, with two kills."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes import Process


def test_the_demo_finds_every_change_once_although_the_worker_was_killed_twice(tmp_path: Path):
    with Process.fencepost("demo-java", log_file=tmp_path / "demo.log") as demo:
        assert demo.wait(300) == 0, demo.output
        output = demo.output
    assert output.count("killed (SIGKILL)") == 2, output
    assert "orders in MariaDB" in output
    lines = {line.strip("│ \n").split("│")[0].strip(): line for line in output.splitlines() if "│" in line}
    for name in ("changes lost", "changes found twice", "changes that the database does not have"):
        assert lines[name].rstrip("│ ").endswith(" 0"), output
