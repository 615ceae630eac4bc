"""`fencepost test`: the conformance checks of a connector, reported like a test run."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fencepost.api.errors import ConfigError
from fencepost.cli.common.exit_codes import ExitCode, exit_codes

if TYPE_CHECKING:
    from fencepost.config.plugin_sources import PluginSources
    from fencepost.testing.conformance import Result

_COLOURS: Final = {"passed": "green", "failed": "red", "skipped": "yellow"}
_WIDTH: Final = 36


@click.command(epilog=exit_codes(done="no check failed", failed="a check failed"))
@click.argument("connector", metavar="CLASS")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The connector's configuration. Its source must have some records, which the checks read again and again. For a "
    "transform: its properties, without transforms.<alias>.",
)
@click.option(
    "--rows",
    "rows_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="For a transform: a file with the values to try it with, one JSON value per line.",
)
@click.option(
    "--plugin-path",
    default=".",
    show_default=True,
    metavar="DIRS",
    help="Directories, comma-separated, from which plugins are imported.",
)
@click.option("-k", "words", metavar="TEXT", default="", help="Run only checks whose names contain this text.")
@click.option(
    "--records",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    help="The maximum number of records that a check reads from the source.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="FIELD",
    help="A field of the value, or a header, that is not compared, such as the time of reading. Repeat it for several.",
)
@click.option(
    "--bootstrap-servers",
    metavar="HOST:PORT",
    help="Also run workers against this Kafka cluster and kill them at each step of a transaction. The source must "
    "end. The workers write to topics of their own, which are deleted at the end.",
)
def test(
    connector: str,
    *,
    config_file: Path | None,
    rows_file: Path | None,
    plugin_path: str,
    words: str,
    records: int,
    ignored: tuple[str, ...],
    bootstrap_servers: str | None,
) -> None:
    """Check whether the connector CLASS, for example my_source.MyConnector, keeps the rules for exactly-once delivery.

    With --rows, CLASS is a transform, for example my_module.totals. It must return the same records when the rows are
    split, and when it is called again. A connector needs --config.

    Its tasks are started, polled, killed and resumed in this process, without Kafka. Offsets are not stored anywhere;
    but the last checks call commit() of the tasks, so a source that deletes committed data loses it.
    """
    from fencepost.config.plugin_sources import PluginSources  # noqa: PLC0415 - for a quick --help
    from fencepost.config.plugins import PluginKind, find_plugin, use_plugin_path  # noqa: PLC0415 - likewise
    from fencepost.config.properties import load_connector_config  # noqa: PLC0415 - likewise
    from fencepost.testing.conformance import CHECKS, KilledWorkers, Limits, Subject, kill_checks, run_checks  # noqa: PLC0415

    directories = use_plugin_path(plugin_path)
    anywhere = PluginSources(modules=("*",))
    if rows_file is not None:
        _test_transform(connector, rows_file, config_file, words, anywhere)
        return
    if config_file is None:
        raise click.UsageError("A connector needs --config FILE, and a transform --rows FILE.")
    _refuse_java(connector, directories)
    plugin = find_plugin(PluginKind.CONNECTOR, connector, property_name="connector.class", sources=anywhere)
    config = load_connector_config(config_file)
    with ExitStack() as closing, _ended_by_sigterm():
        subject = Subject(plugin, config, Limits(records=records), frozenset(ignored))
        checks = [*CHECKS]
        if bootstrap_servers is not None:
            workers = KilledWorkers(subject, bootstrap_servers, plugin_path=plugin_path)
            checks += kill_checks(closing.enter_context(workers))
        chosen = [check for check in checks if words in check.name]
        if not chosen:
            raise ConfigError(f"No check has {words!r} in its name. The checks: {', '.join(map(str, checks))}")
        click.echo(f"{plugin.__module__}.{plugin.__qualname__} with {config_file}\n")
        failed = _run(run_checks(subject, chosen))
    if failed:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _refuse_java(connector: str, directories: Sequence[Path]) -> None:
    """Raise ConfigError for a connector in a jar of `directories`.

    Only the names of Java classes are looked up, because the default directory may have many files.
    """
    from fencepost.config.java_plugins import JAVA, find_java_connectors  # noqa: PLC0415 - for a quick --help
    from fencepost.config.missing_plugins import looks_java  # noqa: PLC0415 - likewise

    name = connector.removeprefix(JAVA)
    in_java = connector != name or looks_java(name)
    for plugin in find_java_connectors(directories, name) if in_java else ():
        raise ConfigError(
            f"{plugin.java_class} in {plugin.location} is a Java connector, and this command cannot check one, because "
            "tasks in Java run in workers only. Run it in a worker on a test cluster, kill the worker several times, and "
            "compare the topic with the source: fencepost verify"
        )


def _test_transform(name: str, rows_file: Path, config_file: Path | None, words: str, sources: PluginSources) -> None:
    from fencepost.cli.common.tables import print_unknown  # noqa: PLC0415 - for a quick --help
    from fencepost.config.plugin_instances import unknown_of_plugin  # noqa: PLC0415 - likewise
    from fencepost.config.plugins import PluginKind, find_plugin  # noqa: PLC0415 - likewise
    from fencepost.config.properties import load_properties  # noqa: PLC0415 - likewise
    from fencepost.testing.conformance import TransformSubject, run_checks, transform_checks  # noqa: PLC0415 - likewise

    plugin = find_plugin(PluginKind.TRANSFORMATION, name, property_name="type", sources=sources)
    config = {} if config_file is None else load_properties(config_file)
    subject = TransformSubject(plugin, _rows(rows_file), config)
    checks = [check for check in transform_checks(subject) if words in check.name]
    if not checks:
        raise ConfigError(
            f"No check has {words!r} in its name. The checks: {', '.join(map(str, transform_checks(subject)))}"
        )
    click.echo(f"{name} with {rows_file}")
    print_unknown(unknown_of_plugin(PluginKind.TRANSFORMATION, plugin, config))
    click.echo()
    if _run(run_checks(subject, checks)):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _rows(file: Path) -> list[Any]:
    """Return the values in a file of JSON lines. Raises ConfigError that names an invalid line."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The rows in {file} cannot be read: {error}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"{file}, line {number}, is not JSON: {error}") from error
    if not rows:
        raise ConfigError(f"{file} has no rows: write a value in JSON on each line")
    return rows


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the checks as Ctrl-C does, so that their files are removed."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(results: Iterable[Result]) -> bool:
    """Report results as they come. Return whether a check has failed."""
    started, done = time.monotonic(), []
    for result in results:
        done.append(result)
        _print_result(result)
    _print_failures(done)
    _sum_up(done, time.monotonic() - started)
    return any(result.violation is not None for result in done)


def _print_result(result: Result) -> None:
    outcome = click.style(result.outcome.name, fg=_COLOURS[result.outcome.value])
    reason = f": {result.reason}" if result.reason else ""
    click.echo(f"{result.check.name:{_WIDTH}} {outcome} {result.seconds:5.1f} s{reason}")


def _print_failures(results: Sequence[Result]) -> None:
    for result in results:
        if result.violation is not None:
            click.echo(f"\n{click.style(result.check.name, bold=True)}: {' '.join(result.check.title.split())}")
            click.echo(f"  {result.violation.message}")
            if result.violation.where is not None:
                click.echo(f"  {result.violation.where}\n      {result.violation.code}")


def _sum_up(results: Sequence[Result], seconds: float) -> None:
    counts = {name: sum(result.outcome.value == name for result in results) for name in ("failed", "passed", "skipped")}
    totals = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    click.echo(f"\n{click.style(totals, fg='red' if counts['failed'] else 'green', bold=True)} in {seconds:.1f} s")
