"""`fencepost verify`: checks with an independent client that a topic has every record of a source once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fencepost.api.errors import DataError
from fencepost.cli.common.cluster_options import asks_cluster, require_answer
from fencepost.cli.common.count_progress import shown_count
from fencepost.cli.common.exit_codes import ExitCode, exit_codes
from fencepost.cli.common.independent_client import (
    READ_UNCOMMITTED,
    MissingTopicError,
    count_behind_open_transactions,
    ends_of,
    place_of,
    read,
)
from fencepost.cli.common.registry_option import asks_registry, record_reading
from fencepost.cli.common.topic_transactions import open_transactions
from fencepost.cli.verify.csv_rows import CsvRows
from fencepost.cli.verify.number_check import NumberCheck, NumberFindings, compare_offsets
from fencepost.cli.verify.record_fields import RecordField
from fencepost.cli.verify.row_check import RowFindings, SourceFile, compare_rows, line_of_record, lines_of
from fencepost.cli.verify.verify_report import VerifyReport, print_report
from fencepost.converters.decoded_json import to_json
from fencepost.converters.record_reading import NO_READING, RecordReading
from fencepost.kafka.admin.open_transactions import OpenTransaction
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
from fencepost.kafka.consumer.partition_requests import EARLIEST
from fencepost.kafka.consumer.read_to_end import TopicReader
from fencepost.storage.offsets.codec import decode_value
from fencepost.storage.offsets.table import OffsetTable

if TYPE_CHECKING:
    from confluent_kafka import Message

_COMPRESSED: Final = (".gz", ".bz2", ".xz")

_FIELDS: Final = """\b
FIELD is one of:
  value, key            the whole
  value.NAME, key.NAME  a field of JSON; value.a.b is one within another
  header.NAME           a header

"""


@dataclass(frozen=True, slots=True)
class Asked:
    """The comparisons that the options of the command request."""

    sequence: RecordField | None
    source_partition: RecordField | None
    first: int | None
    connector: str | None
    offsets_topic: str | None
    source: Path | None
    null_value: str | None
    delimiter: str | None
    expect_count: int | None
    dead_letter_topic: str | None

    def check(self) -> None:
        """Raise UsageError for options that require others, or that exclude each other."""
        if self.sequence is None and self.source is None and self.expect_count is None:
            raise click.UsageError("Say what to compare with: --sequence, --source or --expect-count")
        if self.sequence is not None and self.source is not None:
            raise click.UsageError("Give --sequence or --source, not both")
        of_numbers = (self.source_partition, self.first, self.connector)
        if self.sequence is None and any(option is not None for option in of_numbers):
            raise click.UsageError("--source-partition, --first and --connector need --sequence")
        if (self.connector is None) != (self.offsets_topic is None):
            raise click.UsageError("--connector and --offsets-topic go together")
        of_csv = (self.null_value, self.delimiter)
        if any(option is not None for option in of_csv) and (self.source is None or not _is_csv(self.source)):
            raise click.UsageError("--null-value and --delimiter are for a --source whose name ends with .csv")
        if self.dead_letter_topic is not None and self.source is None and self.expect_count is None:
            raise click.UsageError("--dead-letter-topic needs --source or --expect-count")


def _delimiter(ctx: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    del ctx, parameter
    character = "\t" if text == "\\t" else text
    if character is not None and len(character) != 1:
        raise click.BadParameter("give one character, or \\t")
    return character


def _only(ctx: click.Context, parameter: click.Parameter, given: tuple[Path, ...]) -> Path | None:
    """Refuse several files: click would silently use the last one."""
    del ctx, parameter
    if len(given) > 1:
        raise click.BadParameter(f"give one file that has the rows of all {len(given)}")
    return given[0] if given else None


def _field(ctx: click.Context, parameter: click.Parameter, text: str | None) -> RecordField | None:
    del ctx, parameter
    try:
        return None if text is None else RecordField.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command(
    epilog=_FIELDS
    + exit_codes(
        done="correct: nothing is lost, duplicated or out of order", failed="not correct, or the topic cannot be read"
    )
)
@click.argument("topic")
@click.option(
    "--sequence", metavar="FIELD", callback=_field, help="The field with the record's number in its source partition."
)
@click.option(
    "--source-partition",
    metavar="FIELD",
    callback=_field,
    help="The field that names the record's source partition. Default: there is one source partition.",
)
@click.option(
    "--first",
    metavar="NUMBER",
    type=int,
    help="The first number of each source partition. Default: the lowest number found.",
)
@click.option(
    "--connector", metavar="NAME", help="Compare the last numbers with this connector's committed source offsets."
)
@click.option(
    "--offsets-topic", metavar="TOPIC", help="The topic with the offsets of --connector. Stop the connector first."
)
@click.option(
    "--source",
    metavar="FILE",
    multiple=True,
    callback=_only,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The source file: the rows of a .csv file with a header, as JSON, or the lines of any other file. It may be "
    "compressed with gzip, bzip2 or xz.",
)
@click.option("--null-value", metavar="TEXT", help="The text that means null in a .csv file. Default: an empty field.")
@click.option(
    "--delimiter",
    metavar="CHARACTER",
    callback=_delimiter,
    help="The separator of fields in a .csv file. Default: a comma.",
)
@click.option(
    "--expect-count",
    metavar="NUMBER",
    type=click.IntRange(min=0),
    help="The number of records that the topic must hold.",
)
@click.option(
    "--dead-letter-topic",
    metavar="TOPIC",
    help="With --source or --expect-count: also count the records of this dead letter topic.",
)
@asks_registry
@asks_cluster
def verify(
    config: ClientConfig,
    *,
    as_json: bool,
    topic: str,
    schema_registry_url: str | None,
    connector_config: Path | None,
    **options: Any,
) -> None:
    """Check that TOPIC holds every record of a source once, as a read_committed consumer sees it.

    At least one of --source, --sequence and --expect-count is required.
    """
    asked = Asked(**options)
    asked.check()
    require_answer(config)
    with record_reading(schema_registry_url, connector_config, for_people=False) as reading:
        report = examine(config, topic, asked, reading)
    print_report(report, as_json=as_json)
    if not report.sound:
        raise click.exceptions.Exit(ExitCode.FAILED)


def examine(config: ClientConfig, topic: str, asked: Asked, reading: RecordReading = NO_READING) -> VerifyReport:
    """Read the topic, and compare it as requested. Raises KafkaError and DataError.

    Records with a schema in the registry of `reading` are compared as JSON.
    """
    at_first = open_transactions(config, topic)
    ends = ends_of(config, topic)
    size = _size(config, topic, ends)
    found = read(config, topic, ends)
    counted = _Counted(_as_json(found, reading))
    letters = _letters(config, asked.dead_letter_topic)
    numbers = rows = mismatches = None
    with shown_count(f"Checking {topic}", "records", lambda: counted.count, size):
        if asked.sequence is not None:
            numbers = _check_numbers(counted, asked.sequence, asked.source_partition, asked.first)
        elif asked.source is not None:
            rows = _check_rows(counted, letters, asked.source, asked)
        counted.exhaust()
        letters.exhaust()
    if numbers is not None and asked.connector is not None and asked.offsets_topic is not None:
        committed = _committed_offsets(config, asked.offsets_topic, asked.connector)
        mismatches = compare_offsets({each.source_partition: each.last for each in numbers.partitions}, committed)
    written = _Counted(read(config, topic, ends, READ_UNCOMMITTED))
    with shown_count(f"Counting aborted records of {topic}", "records", lambda: written.count, size):
        written.exhaust()
    return VerifyReport(
        topic=topic,
        records=counted.count,
        aborted=written.count - counted.count,
        undecided=count_behind_open_transactions(config, topic),
        open_transactions=_since(at_first, open_transactions(config, topic)),
        dead_letters=None if asked.dead_letter_topic is None else letters.count,
        expected_records=asked.expect_count,
        numbers=numbers,
        rows=rows,
        offset_mismatches=mismatches,
    )


def _as_json(messages: Iterable[Message], reading: RecordReading) -> Iterator[Message]:
    registries = reading.key.registry, reading.value.registry
    if registries == (None, None):
        yield from messages
        return
    for message in messages:
        given = _consumed(str(message.topic()), message)
        headers, data, change = dict(given.headers), (given.key, given.value), (message.set_key, message.set_value)
        for at, registry in enumerate(registries):
            found = data[at]
            if registry is not None and found is not None:
                # Records without a schema in the registry stay unchanged.
                with suppress(ValueError):
                    change[at](to_json(registry.read(found, is_key=at == 0, headers=headers)).encode())
        yield message


def _letters(config: ClientConfig, topic: str | None) -> _Counted:
    """The records of a dead letter queue. The topic may be missing as long as no record was refused."""
    if topic is None:
        return _Counted(())
    try:
        return _Counted(read(config, topic, ends_of(config, topic)))
    except MissingTopicError:
        click.echo(f"Topic {topic} does not exist: it counts as empty", err=True)
        return _Counted(())


def _size(config: ClientConfig, topic: str, ends: Mapping[int, int]) -> int:
    """The number of offsets to read.

    It may exceed the number of records: markers and aborted records have offsets, too.
    """
    with TopicReader(config, topic) as reader:
        first = reader.committed_offsets(EARLIEST)
    return sum(max(0, end - first.get(partition, 0)) for partition, end in ends.items())


class _Counted:
    """Passes messages on and counts them."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = iter(messages)
        self.count = 0

    def __iter__(self) -> Iterator[Message]:
        for message in self._messages:
            self.count += 1
            yield message

    def exhaust(self) -> None:
        """Read to the end."""
        for _ in self:
            pass


def _check_numbers(
    messages: _Counted, sequence: RecordField, source_partition: RecordField | None, first: int | None
) -> NumberFindings:
    """Check the numbers. Raises DataError if one of the fields is missing in all records."""
    check = NumberCheck(first)
    asked = {"--sequence": sequence} | ({} if source_partition is None else {"--source-partition": source_partition})
    missing = dict(asked)
    example: Message | None = None
    for message in messages:
        example = example or message
        number = sequence.integer_of(message)
        name = "" if source_partition is None else source_partition.of(message)
        if missing:
            missing = {option: field for option, field in missing.items() if field.of(message) is None}
        partition, offset = place_of(message)
        if number is None or name is None:
            check.skip(f"{message.topic()}-{partition}@{offset}")
        else:
            check.see(str(name), number, partition)
    if example is not None:
        for option, field in missing.items():
            partition, offset = place_of(example)
            raise DataError(
                f"No record of {example.topic()} has {field}, which {option} names: the first one, at offset {offset} of "
                f"partition {partition}, has {field.shown_place(example)}"
            )
    return check.findings()


def _check_rows(messages: Iterable[Message], letters: Iterable[Message], path: Path, asked: Asked) -> RowFindings:
    file = SourceFile(path)
    if _is_csv(path):
        rows = CsvRows(asked.null_value or "", asked.delimiter or ",")
        return compare_rows(
            (rows.of_record(message.value()) for message in messages),
            rows.of_file(file),
            file,
            refused=(rows.of_dead_letter(letter.value()) for letter in letters),
        )
    return compare_rows(
        (line_of_record(message.value()) for message in messages),
        lines_of(file),
        file,
        refused=(line_of_record(letter.value()) for letter in letters),
    )


def _committed_offsets(
    config: ClientConfig, topic: str, connector: str
) -> list[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    table = OffsetTable()
    for message in read(config, topic, ends_of(config, topic)):
        table.apply(_consumed(topic, message))
    return [(stored.partition, decode_value(stored.value)) for stored in table.stored_of(connector).values()]


def _consumed(topic: str, message: Message) -> ConsumedRecord:
    given = message.headers() or ()
    pairs = given.items() if isinstance(given, dict) else given
    headers = [(name, text.encode() if isinstance(text, str) else text) for name, text in pairs]
    where = message.partition() or 0, message.offset() or 0, message.timestamp()[1]
    return ConsumedRecord(topic, *where, message.key(), message.value(), headers)


def _since(at_first: list[OpenTransaction] | None, at_last: list[OpenTransaction] | None) -> tuple[str, ...] | None:
    """Return the transactional ids of transactions that are in both lists; None if a list is not known.

    A topic in use always has some transactions that are open for a short time: these are in one list only.
    """
    if at_first is None or at_last is None:
        return None
    begun = {(each.transactional_id, each.started_ms) for each in at_first}
    return tuple(sorted(each.transactional_id for each in at_last if (each.transactional_id, each.started_ms) in begun))


def _is_csv(path: Path) -> bool:
    name = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return name.suffix.lower() == ".csv"
