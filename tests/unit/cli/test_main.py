from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from fencepost import ConfigError, FencepostError, __version__
from fencepost.api.secrets import HIDDEN, SECRETS
from fencepost.cli import main


@pytest.fixture
def failing_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fencepost fail` raises the given error."""
    errors = {
        "known": FencepostError("file a.csv is not there:\n  put it there"),
        "login": FencepostError("no login as hunter-of-main"),
        "config": ConfigError("the property files is missing"),
        "interrupt": KeyboardInterrupt(),
    }

    @click.command()
    @click.argument("kind")
    def fail(kind: str) -> None:
        raise errors[kind]

    monkeypatch.setattr(main, "FAIL", fail, raising=False)
    monkeypatch.setitem(main._COMMANDS, "fail", ("fencepost.cli.main:FAIL", "Fail."))


@pytest.mark.usefixtures("failing_command")
def test_an_expected_failure_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["fail", "known"]) == 1

    assert capsys.readouterr().err == "fencepost: file a.csv is not there: put it there\n"


@pytest.mark.usefixtures("failing_command")
def test_a_wrong_configuration_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["fail", "config"]) == 2

    assert capsys.readouterr().err == "fencepost: the property files is missing\n"


@pytest.mark.parametrize(
    "command",
    [[], ["connectors"], ["standalone"], ["tail"], ["test"], ["transactions"], ["verify"], ["worker"]],
    ids=lambda command: " ".join(command) or "fencepost",
)
def test_the_help_lists_the_exit_codes(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*command, "-h"]) == 0

    lines = capsys.readouterr().out.splitlines()
    codes = lines[lines.index("  Exit codes:") + 1 :]
    assert [line.split()[0] for line in codes[:3]] == ["0", "1", "2"]
    assert codes[2] == "    2  wrong usage or configuration"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["standalone", "{dir}", "x.properties"], "{dir}"),
        (["standalone", "{gone}", "x.properties"], "{gone}"),
        (["standalone", "{worker}", "{dir}"], "{dir}"),
        (["standalone", "{worker}", "{bad}"], "{bad}, line 1"),
        (["standalone", "{worker}", "{empty}"], "{empty}: the property name is required"),
        (
            ["standalone", "{empty}", "{gone}"],
            "'bootstrap.servers=...' to the configuration; The property key.converter",
        ),
        (["worker", "{gone}"], "{gone}"),
        (["worker", "{empty}"], "{empty}"),
        (["connectors", "create", "{gone}"], "{gone}"),
        (["connectors", "create", "{bad}"], "{bad}"),
        (["connectors", "validate", "{dir}"], "{dir}"),
        (["connectors", "offsets", "alter", "c", "{bad}"], "{bad}"),
        (["connectors", "list", "--url", "nonsense"], "nonsense"),
        (["tail", "t", "--command-config", "{gone}"], "{gone}"),
        (["tail", "t", "--bootstrap-server", "nonsense"], "nonsense"),
        (["tail", "t", "--value-converter", "Avro", "--bootstrap-server", "127.0.0.1:1"], "the converter Avro"),
        (["verify", "t", "--bootstrap-server", "127.0.0.1:1"], "Say what to compare with"),
        (["verify", "t", "--source", "{dir}"], "{dir}"),
        (["verify", "t", "--expect-count", "1", "--bootstrap-server", "a:b"], "a:b"),
        (["transactions", "list", "--command-config", "{dir}"], "{dir}"),
        (["test", "os.path", "--config", "{gone}"], "os.path"),
        (["new", "connector", "Upper"], "Upper"),
        (["init", "{empty}"], "{empty}"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_bad_input_is_named_and_ends_with_2(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"dir": tmp_path, "gone": tmp_path / "gone.properties", "empty": tmp_path / "empty.properties"}
    places["bad"] = tmp_path / "bad.json"
    places["worker"] = tmp_path / "worker.properties"
    places["worker"].write_text(
        "bootstrap.servers=127.0.0.1:1\nkey.converter=StringConverter\nvalue.converter=StringConverter\n"
    )
    places["empty"].touch()
    places["bad"].write_text("{")

    assert main.run([argument.format(**places) for argument in arguments]) == 2

    errors = capsys.readouterr().err
    assert told.format(**places) in errors.replace("\n", "")
    assert "Traceback" not in errors


@pytest.mark.usefixtures("failing_command")
def test_a_traceback_is_shown_on_request(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main.run(["--traceback", "fail", "known"]) == 1
    assert "Traceback" in capsys.readouterr().err

    monkeypatch.setenv("FENCEPOST_TRACEBACK", "1")
    assert main.run(["fail", "known"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.usefixtures("failing_command")
@pytest.mark.parametrize("options", [[], ["--traceback"]])
def test_an_expected_failure_has_no_passwords(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    SECRETS.learn({"hunter-of-main": HIDDEN})
    assert main.run([*options, "fail", "login"]) == 1
    assert "no login as [hidden]" in capsys.readouterr().err


@pytest.mark.usefixtures("failing_command")
def test_an_interrupt_ends_with_130() -> None:
    assert main.run(["fail", "interrupt"]) == 130


@pytest.mark.parametrize("arguments", [["nonsense"], ["broker"], ["broker", "--port", "x", "--data-dir", "d"]])
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == 2
    assert "Usage: fencepost" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("command", sorted(main._COMMANDS))
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([command, "--help"]) == 0
    assert "Usage: fencepost" in capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["connectors"], ["connectors", "list"], ["verify"]])
def test_help_has_a_short_option(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*command, "-h"]) == 0
    assert "-h, --help" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["conn"], ["plain,connectors"]),
        (["connectors", "re"], ["plain,restart", "plain,resume"]),
        (["--log-f"], ["plain,--log-format"]),
        (["standalone", "./"], ["file,./"]),
        (["tail", "t", "--value-converter", "Js"], ["plain,JsonConverter", "plain,JsonSchemaConverter"]),
        # Bash treats = as a separate word.
        (["tail", "t", "--key-converter", "=", "St"], ["plain,StringConverter"]),
        (["tail", "t", "--output", "=", "j"], ["plain,json"]),
    ],
)
def test_a_shell_completes_commands_options_and_files(words: list[str], completed: list[str]) -> None:
    line = ["fencepost", *words]
    asked = {"COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(words)), "_FENCEPOST_COMPLETE": "bash_complete"}
    command = [sys.executable, "-m", "fencepost"]

    told = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | asked)

    assert told.stdout.splitlines() == completed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion", shell]) == 0
    assert f"_FENCEPOST_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["completion", "bash"], ["--help"]])
def test_an_output_on_a_full_disk_is_reported_in_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "fencepost", *arguments]
        told = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert told.stderr == f"fencepost: Cannot write the output: {os.strerror(errno.ENOSPC)}\n"
    assert told.returncode == 1


@pytest.mark.parametrize("arguments", [["completion", "bash"], ["--help"]])
def test_nothing_is_said_to_a_reader_of_the_output_that_has_enough(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "fencepost", *arguments]
    told = subprocess.run(command, check=False, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert told.stderr == ""
    assert told.returncode == 1


def test_help_needs_neither_spark_nor_a_kafka_client() -> None:
    script = (
        "import sys; from fencepost.cli.main import run; code = run(['--help']); "
        "heavy = {'pyspark', 'pyarrow', 'kafka'} & set(sys.modules); sys.exit(code or len(heavy))"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False, capture_output=True).returncode == 0


def test_a_data_folder_that_is_a_file_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    assert main.run(["broker", "--data-dir", str(tmp_path / "file" / "data")]) == 2

    told = capsys.readouterr().err
    assert told.startswith("fencepost: cannot write to the broker's data folder")
    assert told.count("\n") == 1


@pytest.mark.parametrize("command", [["demo"], ["verify", "topic", "--expect-count", "1"]])
def test_a_command_names_the_missing_package(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("demo.demo", "demo.check", "common.independent_client", "verify.verify"):
        monkeypatch.delitem(sys.modules, f"fencepost.cli.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)

    assert main.run(command) == 2
    assert "confluent-kafka, which is not installed: pip install 'confluent-kafka>=" in capsys.readouterr().err


def test_top_names_the_missing_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fencepost.cli.top.top_app", raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)

    assert main.run(["top"]) == 2
    assert capsys.readouterr().err == (
        "fencepost: This command needs the package textual, which is not installed: pip install 'textual>=8' "
        "(the extra top of fencepost)\n"
    )


def test_top_asks_for_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["top"]) == 2
    assert "needs a terminal: fencepost connectors list -o json" in capsys.readouterr().err
