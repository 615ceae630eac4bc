"""The requests and the output of `fencepost connectors`."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry, Gauge

from fencepost.cli.common.connect_client import ConnectClient
from fencepost.cli.connectors.connector_figures import Figures, figures_of
from fencepost.cli.connectors.connector_views import print_connectors, print_transactions
from fencepost.storage.configs.codec import TargetState
from tests.support.model_herder import ModelHerder
from tests.support.rest import RestApis
from tests.unit.cli.conftest import RebalancingHerder, Run


def test_a_connector_is_created_from_a_file_and_listed(run: Run, file: Path) -> None:
    assert run("create", file) == (0, "Created lines.\n", "")

    code, out, _ = run("list")
    assert code == 0
    assert [word for word in ("lines", "FileStreamSource", "RUNNING", "1 RUNNING", "127.0.0.1:8083") if word in out] == [
        "lines", "FileStreamSource", "RUNNING", "1 RUNNING", "127.0.0.1:8083",
    ]  # fmt: skip
    assert json.loads(run("list", "-o", "json")[1])["lines"]["status"]["connector"]["state"] == "RUNNING"


def test_a_connector_begins_in_the_requested_state(run: Run, herder: ModelHerder, file: Path) -> None:
    assert run("create", file, "--state", "stopped")[0] == 0
    assert herder.known["lines"].target is TargetState.STOPPED


def test_a_name_that_is_taken_is_refused_without_waiting(run: Run, file: Path) -> None:
    run("create", file)

    # If the command waited, the test would reach its time limit.
    code, out, err = run("create", file, "--retry-seconds", 1_000_000)
    assert (code, out) == (1, "")
    assert "already exists (status 409" in err
    assert err.count("\n") == 1


def test_a_file_without_a_name_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.properties").write_text("connector.class=FileStreamSource\n")
    code, _, err = run("create", tmp_path / "c.properties")
    assert code == 2
    assert "c.properties: the property name is required" in err


def test_a_connector_is_shown_with_its_configuration(run: Run, file: Path) -> None:
    run("create", file)

    code, out, _ = run("show", "lines")
    assert code == 0
    assert str(file.with_name("in.txt")) in out
    assert "lines-0" in out
    shown = json.loads(run("show", "lines", "-o", "json")[1])
    assert shown["info"]["config"]["topic"] == "lines"
    assert shown["status"]["tasks"][0]["state"] == "RUNNING"


def test_a_failed_task_is_shown_with_its_reason_and_exit_code_3(run: Run, failing_file: Path) -> None:
    run("create", failing_file)

    code, out, _ = run("show", "failing")
    assert code == 3
    assert "failing-0 failed:\nwhy\n" in out


def test_a_missing_connector_is_exit_code_1(run: Run) -> None:
    code, out, err = run("show", "nobody")
    assert (code, out) == (1, "")
    assert err.startswith("fencepost: There is no connector nobody (status 404")


def test_a_configuration_is_replaced(run: Run, herder: ModelHerder, file: Path) -> None:
    run("create", file)
    file.write_text(file.read_text().replace('"topic": "lines"', '"topic": "others"'))

    assert run("update", file)[:2] == (0, "Configured lines.\n")
    assert herder.known["lines"].config["topic"] == "others"


def test_validating_reports_errors_and_creates_nothing(run: Run, herder: ModelHerder, file: Path) -> None:
    assert run("validate", file)[:2] == (0, "The configuration is valid.\n")

    file.write_text(file.read_text().replace('"topic": "lines"', '"tasks.max": "zero", "topic": "lines"'))
    code, out, _ = run("validate", file)
    assert code == 1
    name, error, *_, count = out.splitlines()
    assert name == "tasks.max"
    assert error.startswith("    Invalid value 'zero'")
    assert count.endswith(" errors.")
    code, out, _ = run("validate", file, "-o", "json")
    assert code == 1
    assert json.loads(out)["error_count"] > 0
    assert not herder.known


def test_errors_of_a_configuration_fit_the_width_of_a_terminal(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(file.read_text().replace('"topic": "lines"', f'"tasks.max": "{"x" * 30}", "topic": "lines"'))
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    lines = run("validate", file)[1].splitlines()

    assert len(lines) > 3
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize(
    ("command", "state"),
    [("pause", TargetState.PAUSED), ("stop", TargetState.STOPPED), ("resume", TargetState.STARTED)],
)
def test_a_connector_is_paused_stopped_and_resumed(
    run: Run, herder: ModelHerder, file: Path, command: str, state: TargetState
) -> None:
    run("create", file, "--state", "PAUSED" if command == "resume" else "RUNNING")
    assert run(command, "lines")[0] == 0
    assert herder.known["lines"].target is state


def test_as_json_each_command_prints_only_the_workers_answer(run: Run, file: Path) -> None:
    def answer(*arguments: Any) -> Any:
        code, out, err = run(*arguments, "-o", "json")
        assert (code, err) == (0, "")
        return json.loads(out) if out else None

    assert answer("create", file)["config"]["topic"] == "lines"
    assert answer("update", file)["name"] == "lines"
    assert answer("offsets", "show", "lines")["offsets"][0]["offset"] == {"position": 14}
    assert [answer(command, "lines") for command in ("pause", "resume", "stop")] == [None] * 3
    assert "successfully" in answer("offsets", "reset", "lines")["message"]
    assert answer("delete", "lines") is None


def test_a_connector_with_special_characters_in_its_name_is_deleted(run: Run, herder: ModelHerder, file: Path) -> None:
    name = "a/b [bold]c? 100%25"
    file.write_text(file.read_text().replace('"name": "lines"', f'"name": "{name}"'))
    run("create", file)

    assert name in run("list")[1]
    assert run("delete", name)[0] == 0
    assert not herder.known


@pytest.mark.parametrize("name", [".", ".."])
def test_a_connector_that_another_tool_named_as_a_directory_is_deleted(
    run: Run, herder: ModelHerder, file: Path, name: str
) -> None:
    run("create", file)
    herder.known[name] = herder.known.pop("lines")

    assert run("show", name)[0] == 0
    assert run("delete", name)[0] == 0
    assert not herder.known


def test_a_connector_its_tasks_or_one_of_them_is_restarted(run: Run, file: Path) -> None:
    run("create", file)

    assert run("restart", "lines", "-o", "json") == (0, "", "")
    whole = json.loads(run("restart", "lines", "--tasks", "-o", "json")[1])
    assert (whole["connector"]["state"], whole["tasks"][0]["state"]) == ("RESTARTING", "RESTARTING")
    failed = json.loads(run("restart", "lines", "--tasks", "--only-failed", "-o", "json")[1])
    assert (failed["connector"]["state"], failed["tasks"][0]["state"]) == ("RUNNING", "RUNNING")
    assert run("restart", "lines", "--tasks", "--only-failed")[1] == "Nothing of lines has failed.\n"
    assert run("restart", "lines", "--only-failed")[1].startswith("lines itself has not failed. --tasks includes")
    assert run("restart", "lines", "--task", 0)[0] == 0
    assert run("restart", "lines", "--task", 7)[0] == 1
    assert run("restart", "lines", "--task", 0, "--tasks")[0] == 2


def test_a_name_cannot_reverse_the_text_of_a_terminal(run: Run, file: Path) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), "name": "a\u202eb"}))
    assert run("create", file)[1] == "Created a\\u202eb.\n"

    for command in (["list"], ["show", "a\u202eb"], ["watch", "--until", "running"], ["offsets", "show", "a\u202eb"]):
        assert "\u202e" not in run(*command)[1], command
    assert "no connector no\\u202ebody (status" in run("show", "no\u202ebody")[2]


def test_transactions_are_shown_by_task(run: Run, file: Path) -> None:
    assert run("create", file)[0] == 0
    code, out, _ = run("transactions", "lines")
    assert code == 0
    shown = ("group-lines-0", "IN_TRANSACTION", "1000/7", "2 (99 bytes)", "3 records", '{"p": "a"}: {"o": 3}')
    assert [word for word in shown if word in out] == list(shown)
    assert json.loads(run("transactions", "lines", "-o", "json")[1])["tasks"][0]["open_since"] == 1_700_000_001_000
    assert run("transactions", "unknown")[0] == 1


def test_only_the_first_offsets_of_a_large_commit_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    offsets = [{"partition": {"p": number}, "offset": None} for number in range(8)]
    task = {
        "id": 0, "worker_id": "w", "transactional_id": "t", "state": "READY", "producer_id": 1, "producer_epoch": 2,
        "open_since": None, "last_commit": {"at": 0, "records": 8, "offsets": offsets},
    }  # fmt: skip
    print_transactions({"tasks": [task]})
    out = capsys.readouterr().out
    assert [number for number in range(8) if f'{{"p": {number}}}: null' in out] == [0, 1, 2, 3, 4]
    assert "and 3 more, see -o json" in out


def test_offsets_that_are_shown_as_json_can_be_altered_and_reset(run: Run, file: Path, tmp_path: Path) -> None:
    run("create", file)
    assert '{"position": 14}' in run("offsets", "show", "lines")[1]
    offsets = tmp_path / "offsets.json"
    offsets.write_text(run("offsets", "show", "lines", "-o", "json")[1].replace("14", "4"))

    code, _, err = run("offsets", "alter", "lines", offsets)
    assert code == 1
    assert "must be STOPPED" in err
    assert "The command for that: fencepost connectors stop lines" in err
    assert "fencepost connectors stop lines" in run("offsets", "reset", "lines")[2]
    run("stop", "lines")
    assert run("offsets", "alter", "lines", offsets)[:2] == (0, "The offsets of lines were altered successfully.\n")
    assert '{"position": 4}' in run("offsets", "show", "lines")[1]
    assert run("offsets", "reset", "lines")[0] == 0
    assert json.loads(run("offsets", "show", "lines", "-o", "json")[1]) == {"offsets": []}


def test_a_rebalance_is_waited_for(run: Run, herder: RebalancingHerder, file: Path) -> None:
    run("create", file)
    herder.refusals = 2
    assert run("show", "lines")[0] == 0
    assert herder.refusals == 0


def test_a_rebalance_is_not_waited_for_without_end(run: Run, herder: RebalancingHerder, file: Path) -> None:
    run("create", file)
    herder.refusals = 1
    code, _, err = run("show", "lines", "--retry-seconds", 0)
    assert code == 1
    assert "A rebalance is due (status 409" in err


def test_a_connectors_figures_are_summed_over_all_workers() -> None:
    registries = [CollectorRegistry(), CollectorRegistry()]
    rate = "kafka_connect_source_task_source_record_write_rate"
    for number, registry in enumerate(registries):
        for name, value in ((rate, 10.0), ("fencepost_task_source_lag", 5.0)):
            Gauge(name, "help", ["connector", "task"], registry=registry).labels("a", str(number)).set(value)
        skipped = Gauge("kafka_connect_task_error_total_records_skipped", "help", ["connector"], registry=registry)
        skipped.labels("b").set(2)
    with RestApis() as apis:
        urls = [apis.serve(ModelHerder(), registry=registry).url for registry in registries]
        workers = [*(urlsplit(url).netloc for url in urls), "127.0.0.1:1", "odd"]
        connectors = {"a": {"status": {"tasks": [{"worker_id": worker} for worker in workers]}}}
        client = ConnectClient(urls[0], retry_seconds=0)
        found = apis.call(asyncio.to_thread(figures_of, client, connectors))

    assert found == {"a": Figures(rate=20, lag=10), "b": Figures(skipped=4)}


def test_connectors_are_listed_with_their_figures_and_the_last_error(capsys: pytest.CaptureFixture[str]) -> None:
    parts = {"state": "FAILED", "worker_id": "w"}
    task = {"id": 0, **parts, "trace": "Traceback (most recent call last):\n  File x\nOSError: full\n"}
    status = {"name": "a", "connector": {**parts, "state": "RUNNING"}, "tasks": [task]}
    print_connectors({"a": {"status": status}, "b": {}}, {"a": Figures(rate=1234.4, lag=math.nan, skipped=7)})

    lines = capsys.readouterr().out.splitlines()
    line = next(line for line in lines if " a " in line)
    assert [cell.strip() for cell in line.split("│")[4:-1]] == ["1 FAILED", "w", "0", "", "7"]
    assert lines[-2:] == ["a", "    OSError: full"]
    task["state"] = "RUNNING"
    print_connectors({"a": {"status": status}}, {"a": Figures(rate=1234.4)})
    assert "1,234" in capsys.readouterr().out


def test_unknown_properties_are_reported_with_a_suggestion(run: Run, file: Path) -> None:
    file.write_text(file.read_text().replace('"topic": "lines"', '"topic": "lines", "task.max": "1", "x": "y"'))

    code, out, _ = run("validate", file)

    assert code == 0
    assert out.splitlines()[-2:] == [
        "The property task.max is unknown: did you mean tasks.max?",
        "The property x is unknown",
    ]
    assert json.loads(run("validate", file, "-o", "json")[1])["unknown"] == {"task.max": "tasks.max", "x": None}
