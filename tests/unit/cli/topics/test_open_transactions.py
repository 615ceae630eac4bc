"""Messages about open transactions: that there are none, and the command that ends one, ready to be pasted."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any, Self

import click
import pytest
from click.testing import CliRunner

from fencepost.cli import main
from fencepost.cli.common.cluster_options import asks_cluster
from fencepost.cli.topics import transactions
from fencepost.cli.topics.tail import open_transaction_text
from fencepost.kafka.admin.open_transactions import OpenTransaction
from fencepost.kafka.producer.transaction import ProducerIdentity

OPEN = OpenTransaction("my task", ProducerIdentity(1, 2), "Ongoing", 3, 60_000, 0, (("t", 0),))


@pytest.fixture
def open_ones(monkeypatch: pytest.MonkeyPatch) -> list[OpenTransaction]:
    """The open transactions of a cluster that answers."""
    found: list[OpenTransaction] = []

    class Admin:
        def __init__(self, _: object) -> None:
            pass

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def open_transactions(self) -> Sequence[OpenTransaction]:
            return list(found)

    monkeypatch.setattr(transactions, "Admin", Admin)
    monkeypatch.setattr(transactions, "require_answer", lambda _: None)
    return found


def listed(*options: str) -> str:
    given = ["transactions", "list", "--bootstrap-server", "b:1", *options]
    # A command keeps its first help option, which is `-h` only below its program.
    result = CliRunner().invoke(main.cli, given, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "No open transactions."),
        (("--group", "g\x1b"), "No open transactions of group g\\x1b."),
        (("--older-than", "60"), "No transactions are open for longer than 60 s."),
        (("--older-than", "0.5", "--group", "g"), "No transactions of group g are open for longer than 0.5 s."),
    ],
)
@pytest.mark.usefixtures("open_ones")
def test_no_open_transaction_is_a_sentence_instead_of_an_empty_table(options: tuple[str, ...], said: str):
    assert listed(*options) == f"{said}\n"


@pytest.mark.usefixtures("open_ones")
def test_programs_get_an_empty_list_where_no_transaction_is_open():
    assert json.loads(listed("-o", "json")) == []


def test_an_open_transaction_is_in_the_table(open_ones: list[OpenTransaction]):
    open_ones.append(OPEN)
    assert "my task" in listed()
    assert listed("--group", "g") == "No open transactions of group g.\n"


@pytest.mark.parametrize(
    "given",
    [
        ["--bootstrap-server", "b1:9092,b2:9092"],
        ["--command-config", "my admin.properties"],
        ["--bootstrap-server", "b1:9092", "--command-config", "admin.properties"],
    ],
)
def test_the_command_that_ends_a_transaction_can_be_pasted(
    given: list[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("my admin.properties", "admin.properties"):
        (tmp_path / name).write_text("bootstrap.servers=b:1\n")

    @click.command()
    @asks_cluster
    def shows(*_: Any, **__: Any) -> None:
        click.echo(open_transaction_text(OPEN, "t", {0: 3}))

    said = CliRunner().invoke(shows, given, catch_exceptions=False).output
    _, _, command = said.partition("If its task is gone: ")
    assert shlex.split(command) == ["fencepost", "transactions", "abort", "my task", *given]
