"""The command `fencepost`.

An expected failure is reported in one line on stderr; the traceback is shown only with an option. `exit_codes` has the
exit codes.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem, shell_complete

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.api.secrets import SECRETS
from fencepost.api.texts import printable
from fencepost.api.traces import format_trace
from fencepost.cli.common.exit_codes import ExitCode, exit_codes
from fencepost.cli.common.left_threads import end_without_threads
from fencepost.cli.common.logs import FORMATS, hide_secrets_in_uncaught_errors, log_to_stderr
from fencepost.cli.develop.completion import COMPLETE_VARIABLE, PROGRAM
from fencepost.embedded.errors import (
    DataDirError,
    JavaNotFoundError,
    MariaDbMissingError,
    PortTakenError,
    PostgresMissingError,
)

# Commands are imported when they run: `fencepost --help` needs none of their dependencies (Spark, a Kafka client).
_COMMANDS: Final = {
    "broker": ("fencepost.cli.run.broker:broker", "Run a Kafka broker on this machine."),
    "completion": (
        "fencepost.cli.develop.completion:completion",
        "Print the script that completes commands in a shell.",
    ),
    "connectors": ("fencepost.cli.connectors.connectors:connectors", "Create, show and control connectors."),
    "demo": ("fencepost.cli.demo.demo:demo", "Send 336,776 flights exactly once while the worker is killed."),
    "demo-cdc": ("fencepost.cli.demo.cdc:demo_cdc", "Send a bank's transfers from PostgreSQL, killing the worker."),
    "demo-java": (
        "fencepost.cli.demo.java:demo_java",
        "Send changes from MariaDB with Debezium's jar, killing the worker.",
    ),
    "demo-outbox": (
        "fencepost.cli.demo.outbox:demo_outbox",
        "Send an outbox's events from PostgreSQL, killing the worker.",
    ),
    "init": ("fencepost.cli.develop.init:init", "Write a commented file for a worker."),
    "new": ("fencepost.cli.develop.new:new", "Write the package of a new connector."),
    "postgres": ("fencepost.cli.run.postgres:postgres", "Run a PostgreSQL on this machine."),
    "registry": ("fencepost.cli.run.registry:registry", "Run a schema registry on this machine."),
    "standalone": ("fencepost.cli.run.standalone:standalone", "Run connectors in one process, exactly once."),
    "tail": ("fencepost.cli.topics.tail:tail", "Show the records of a topic, and the transactions that hide some."),
    "test": ("fencepost.cli.develop.test:test", "Check a connector of your own for exactly-once delivery."),
    "top": ("fencepost.cli.top.top:top", "Watch and control a group of workers, live in the terminal."),
    "topics": ("fencepost.cli.topics.topics:topics", "Create the topics in which workers keep their state."),
    "transactions": (
        "fencepost.cli.topics.transactions:transactions",
        "List a cluster's open transactions, and abort one.",
    ),
    "verify": ("fencepost.cli.verify.verify:verify", "Check that a topic holds every record of a source once."),
    "worker": ("fencepost.cli.run.worker:worker", "Run a worker of a group, with Kafka Connect's REST API."),
}

# Errors that the user must correct before the command can do anything: a property, a port, a folder, the installation.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_TO_CORRECT_FIRST: Final = (
    ConfigError,
    DataDirError,
    JavaNotFoundError,
    MariaDbMissingError,
    PortTakenError,
    PostgresMissingError,
)


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=_COMMANDS[name][1]) for name in names]
        # A Group's own help would import each command.
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=exit_codes(failed="what was asked for failed, or its outcome is bad"),
)
@click.version_option(package_name="fencepost")
@click.option("--traceback", is_flag=True, envvar="FENCEPOST_TRACEBACK", help="Show the traceback of errors.")
@click.option(
    "--log-level",
    type=click.Choice(["ERROR", "WARNING", "INFO", "DEBUG"], case_sensitive=False),
    default="INFO",
    show_default=True,
    help="The level of the log on stderr.",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS, case_sensitive=False),
    default=FORMATS[0],
    show_default=True,
    envvar="FENCEPOST_LOG_FORMAT",
    help="The format of the log: text, or a JSON object per line.",
)
@click.pass_context
def cli(ctx: click.Context, *, traceback: bool, log_level: str, log_format: str) -> None:
    """Bring data into Kafka exactly once."""
    ctx.obj = traceback
    log_to_stderr(log_level, log_format, tracebacks=traceback)


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        with cli.make_context(PROGRAM, list(arguments)) as context:
            return _invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as wrong_usage:
        wrong_usage.show()
        return wrong_usage.exit_code
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except OSError as error:
        if error.errno not in (errno.EPIPE, *_FULL):
            raise
        # The reader of the output, such as `head`, has read enough: this is not an error.
        if error.errno in _FULL:
            click.echo(f"fencepost: Cannot write {error.filename or 'the output'}: {error.strerror}", err=True)
        return ExitCode.FAILED


def _invoke(context: click.Context) -> int:
    try:
        cli.invoke(context)
    except FencepostError as error:
        if context.obj:
            click.echo(format_trace(error), nl=False, err=True)
        else:
            click.echo(f"fencepost: {_one_line(error)}", err=True)
        return ExitCode.WRONG_USAGE if isinstance(error, _TO_CORRECT_FIRST) else ExitCode.FAILED
    return ExitCode.DONE


def _one_line(error: FencepostError) -> str:
    return printable(SECRETS.hidden(" ".join(str(error).split())))


def main() -> None:
    """The entry point of the installed command."""
    if asked := os.environ.get(COMPLETE_VARIABLE):
        sys.exit(shell_complete(cli, {}, PROGRAM, COMPLETE_VARIABLE, asked))
    hide_secrets_in_uncaught_errors()
    code = run(sys.argv[1:])
    end_without_threads(code)
    sys.exit(code)
