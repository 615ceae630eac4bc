"""`fencepost tail`: shows the records of a topic as a read_committed consumer sees them.

--from ──> positions ──> read up to the last stable offset ──> print ──┬─> --follow: read on, print
                                                                       └─> name the open transactions behind it
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, Final, Self

import click

from fencepost.api.texts import printable
from fencepost.cli.common.cluster_options import asks_cluster, given_cluster, require_answer
from fencepost.cli.common.exit_codes import exit_codes
from fencepost.cli.common.registry_option import asks_registry, record_reading
from fencepost.cli.common.tables import counted, shown_time
from fencepost.cli.common.topic_transactions import open_transactions
from fencepost.converters.decoded_json import to_json
from fencepost.converters.record_decoding import CONVERTERS, Decoder, RecordDecoder, advice, decoder
from fencepost.kafka.admin.open_transactions import OpenTransaction
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord, SkippedBatch
from fencepost.kafka.consumer.last_records import last_records, records_between
from fencepost.kafka.consumer.partition_requests import EARLIEST, LATEST
from fencepost.kafka.consumer.read_to_end import DEFAULT_TIMEOUT_MS, TopicReader
from fencepost.kafka.errors import BrokerUnavailableError, KafkaError

_BEGINNING: Final = "beginning"
_END: Final = "end"
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
# Brokers may be unavailable for a while, for example during a restart.
_PATIENCE_SECONDS: Final = 60.0
_REPORT_INTERVAL_SECONDS: Final = 5.0
# The time-out of a request for open transactions. A longer one would delay the error that brokers are unavailable.
_REPORT_TIMEOUT_MS: Final = 2_000.0
_SHOWN_ENDS: Final = 5
_READ_MEGABYTES: Final = 64
"""The memory for the records of one fetch: a compressed batch may hold any amount of data."""

_EXAMPLES: Final = """\b
Examples:
  fencepost tail orders --bootstrap-server broker1:9092            the last 10 records
  fencepost tail orders --from beginning -o json ... | jq .value
  fencepost tail orders --from 2026-01-31T08:00 --follow ...       from a time on, and new records

"""


@dataclass(frozen=True, slots=True)
class Start:
    """The position of the first record. One field is set: the number of last records, an offset, or a time.

    `timestamp` is in milliseconds, or EARLIEST or LATEST.
    """

    last: int | None = None
    offset: int | None = None
    timestamp: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `beginning`, `end`, `-10`, `1234` (an offset) or a time of ISO 8601. Raises ValueError."""
        if text in (_BEGINNING, _END):
            return cls(timestamp=EARLIEST if text == _BEGINNING else LATEST)
        if _NUMBER.fullmatch(text):
            number = int(text)
            return cls(last=-number) if text.startswith("-") else cls(offset=number)
        try:
            return cls(timestamp=int(datetime.fromisoformat(text).timestamp() * 1000))
        except ValueError:
            raise ValueError(
                f"{text!r} is not a place to begin: give beginning, end, -N for the last N records, an offset, or a time "
                "like 2026-01-31T08:00"
            ) from None


def _start(ctx: click.Context, parameter: click.Parameter, text: str) -> Start:
    del ctx, parameter
    try:
        return Start.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _converters(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    del ctx, parameter
    return [name for name in CONVERTERS if name.startswith(incomplete)]


@click.command(epilog=_EXAMPLES + exit_codes(done="shown", failed="the topic cannot be read"))
@click.argument("topic")
@click.option(
    "--from",
    "start",
    metavar="WHERE",
    default="-10",
    show_default=True,
    callback=_start,
    help="Where to begin: beginning, end, -N (the last N records), an offset, or a time in ISO 8601.",
)
@click.option("-f", "--follow", is_flag=True, help="Continue with new records until Ctrl-C.")
@click.option(
    "--key-converter",
    metavar="NAME",
    shell_complete=_converters,
    help=f"The converter for keys: {', '.join(CONVERTERS)}. Default: the one of --connector-config, else auto.",
)
@click.option(
    "--value-converter",
    metavar="NAME",
    shell_complete=_converters,
    help="The converter for values, as for --key-converter.",
)
@asks_registry
@asks_cluster
def tail(
    config: ClientConfig,
    *,
    as_json: bool,
    topic: str,
    start: Start,
    follow: bool,
    key_converter: str | None,
    value_converter: str | None,
    schema_registry_url: str | None,
    connector_config: Path | None,
) -> None:
    """Show the records of TOPIC that read_committed consumers see.

    With -o json each record is one line. Open transactions that hide records are named on stderr.
    """
    with record_reading(schema_registry_url, connector_config) as reading:
        key = reading.key.decoder(key_converter, is_key=True)
        value = reading.value.decoder(value_converter, is_key=False)
        _show(config, topic, start, _Printer(key, value, as_json=as_json), follow=follow)


def _show(config: ClientConfig, topic: str, start: Start, show: _Printer, *, follow: bool) -> None:
    require_answer(config)
    most_bytes = _READ_MEGABYTES * 1024 * 1024
    with TopicReader(config, topic, most_bytes=most_bytes) as reader, suppress(BrokenPipeError):
        if reader.is_missing():
            click.echo(
                f"The brokers do not know {topic}; one that was just created they will know within seconds", err=True
            )
        # Waits for the markers of transactions that have just been committed.
        open_transactions(config, topic)
        for record in _records(reader, start):
            show(record)
        sys.stdout.flush()
        skipped = set(reader.take_skipped())
        _print_skipped(topic, skipped)
        if not (show.count or skipped):
            click.echo(_nothing(reader, start, follow=follow), err=True)
        hidden = _Hidden(config, reader)
        hidden.report()
        while follow:
            for record in _polled(reader):
                show(record)
            sys.stdout.flush()
            _print_skipped(topic, reader.take_skipped())
            hidden.report_if_due()
        return
    # The reader of the pipe, such as `head`, has read enough. Python flushes again when it ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_skipped(topic: str, skipped: Iterable[SkippedBatch]) -> None:
    """Print on stderr which records were not decoded."""
    for partition, first, last, problem in sorted(skipped):
        offsets = f"Offset {first}" if first == last else f"Offsets {first} to {last}"
        why = (
            f"the batch cannot be read ({printable(problem)}). Find its producer: consumers in other languages may fail there"
            if problem
            else f"the batch takes more than {_READ_MEGABYTES} MiB once it is decompressed. A consumer with enough memory can "
            "read it"
        )
        click.echo(f"{offsets} of {topic}-{partition} not shown: {why}", err=True)


def _records(reader: TopicReader, start: Start) -> Iterator[ConsumedRecord]:
    """Yield the records from the start to the last stable offsets. Afterwards the reader is at these offsets.

    Raises TopicNotFoundError, AuthorizationError and BrokerUnavailableError.
    """
    ends = reader.committed_offsets(LATEST)
    first = reader.committed_offsets(EARLIEST)
    poll = partial(_polled, reader)
    if start.last is not None:
        yield from last_records(reader, start.last, first, ends, poll=poll).records
    else:
        yield from records_between(reader, _positions(reader, start, first, ends), ends, poll)
    reader.seek(ends)


def _nothing(reader: TopicReader, start: Start, *, follow: bool) -> str:
    """Return why no record was shown. The reader is at the last stable offsets."""
    topic, ends = reader.topic, reader.positions
    if start.offset is not None:
        end_texts = ", ".join(
            f"{end} in partition {partition}" for partition, end in sorted(ends.items())[:_SHOWN_ENDS]
        )
        more = ", ..." if len(ends) > _SHOWN_ENDS else ""
        what = f"{topic} has no committed record at offset {start.offset} or after it: it ends at {end_texts}{more}"
    elif start.timestamp == LATEST:
        what = f"--from {_END} shows only what is written later"
    elif start.timestamp not in (EARLIEST, None):
        what = f"{topic} has no committed record of that time or later"
    else:
        what = f"{topic} has no committed records"
    return f"{what}. {'Waiting for new ones' if follow else '-f waits for new ones'}"


def _positions(
    reader: TopicReader, start: Start, first: Mapping[int, int], ends: Mapping[int, int]
) -> Mapping[int, int]:
    if start.offset is not None:
        return {partition: min(max(start.offset, first[partition]), end) for partition, end in ends.items()}
    if start.timestamp in (EARLIEST, None):
        return first
    found = reader.committed_offsets(start.timestamp or 0)
    return {partition: end if found[partition] < 0 else found[partition] for partition, end in ends.items()}


def _polled(reader: TopicReader) -> list[ConsumedRecord]:
    # If brokers refuse connections, `poll` returns nothing; if they do not answer, it raises an error.
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            found = reader.poll()
        except BrokerUnavailableError:
            if time.monotonic() > deadline:
                raise
        else:
            if reader.silent_seconds > _PATIENCE_SECONDS:
                raise BrokerUnavailableError(
                    f"Topic {reader.topic} cannot be read: no broker has answered for {_PATIENCE_SECONDS:.0f} s. Check "
                    "that the brokers run, then start again"
                )
            return found


class _Printer:
    """Prints records, one per line."""

    def __init__(self, key: RecordDecoder, value: RecordDecoder, *, as_json: bool) -> None:
        self._key = key
        self._value = value
        self._as_json = as_json
        self._advised: set[str] = set()
        self.count = 0
        """How many records were printed."""

    def __call__(self, record: ConsumedRecord) -> None:
        self.count += 1
        given = dict(record.headers)
        key = _decoded(lambda data: self._key(data, given), record.key)
        value = _decoded(lambda data: self._value(data, given), record.value)
        headers = [(name, _decoded(decoder("auto"), data)) for name, data in record.headers]
        click.echo(
            self._json(record, key, value, headers) if self._as_json else self._line(record, key, value, headers)
        )
        self._advise("key", self._key, record.key)
        self._advise("value", self._value, record.value)

    def _advise(self, part: str, used: RecordDecoder, data: bytes | None) -> None:
        """Print once on stderr which converter to use, if none was given and the bytes are not text."""
        if data is None or not used.guesses or part in self._advised:
            return
        hint = advice(data, part)
        if hint is not None:
            self._advised.add(part)
            click.echo(f"A {part} is neither JSON nor text: {hint}", err=True)

    @staticmethod
    def _json(record: ConsumedRecord, key: Any, value: Any, headers: list[tuple[str, Any]]) -> str:
        return to_json(
            {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": key,
                "value": value,
                "headers": [{"name": name, "value": given} for name, given in headers],
            }
        )

    @staticmethod
    def _line(record: ConsumedRecord, key: Any, value: Any, headers: list[tuple[str, Any]]) -> str:
        where = click.style(f"{record.partition}@{record.offset}", fg="cyan")
        parts = [click.style(_time_of(record), dim=True), where]
        if key is not None:
            parts.append(click.style(_one_line(key), fg="green"))
        parts.append(_one_line(value))
        if headers:
            header_texts = ", ".join(f"{printable(name)}={_one_line(given)}" for name, given in headers)
            parts.append(click.style(f"[{header_texts}]", dim=True))
        return "  ".join(parts)


def _decoded(decode: Decoder, data: bytes | None) -> Any:
    """Return the decoded data. Bytes that the converter cannot have written are shown with the reason."""
    if data is None:
        return None
    try:
        return decode(data)
    except ValueError as error:
        return {**decoder("ByteArrayConverter")(data), "error": str(error)}


def _one_line(value: Any) -> str:
    """Return a text without quotes, on one line, and everything else as JSON."""
    return printable(value).replace("\n", "\\n") if isinstance(value, str) else to_json(value)


def _time_of(record: ConsumedRecord) -> str:
    if record.timestamp < 0:
        return "no timestamp"
    return datetime.fromtimestamp(record.timestamp / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")[:23]


class _Hidden:
    """Prints which open transactions hide records, each transaction once."""

    def __init__(self, config: ClientConfig, reader: TopicReader) -> None:
        self._config = config
        self._reader = reader
        self._reported: set[tuple[str, int]] = set()
        self._reported_at = time.monotonic()

    def report_if_due(self) -> None:
        """Call `report` if its last call was some seconds ago. Brokers that do not answer are asked again later."""
        if time.monotonic() - self._reported_at > _REPORT_INTERVAL_SECONDS:
            with suppress(KafkaError):
                self.report(_REPORT_TIMEOUT_MS)
            self._reported_at = time.monotonic()

    def report(self, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> None:
        """Print on stderr which records are hidden, and by which transactions.

        Raises KafkaError if one of the two requests for offsets takes longer than the time-out.
        """
        stable, ends = self._reader.committed_offsets(LATEST, timeout_ms), self._reader.end_offsets(timeout_ms)
        hidden = {
            partition: end - stable[partition] for partition, end in ends.items() if end > stable.get(partition, end)
        }
        if not hidden:
            return
        topic = self._reader.topic
        found = open_transactions(self._config, topic) or []
        for transaction in found:
            name = (transaction.transactional_id, transaction.started_ms)
            if name not in self._reported:
                self._reported.add(name)
                click.echo(open_transaction_text(transaction, topic, hidden), err=True)
        if not found and not self._reported:
            self._reported.add(("", 0))
            click.echo(
                f"{counted(sum(hidden.values()), 'offset')} at the end of {topic} hidden by a transaction that cannot be "
                "seen: it may have ended just now, hang, or be of a broker before Kafka 3.0",
                err=True,
            )


def open_transaction_text(transaction: OpenTransaction, topic: str, hidden: Mapping[int, int]) -> str:
    """Describe the offsets of a topic that a transaction hides, and name the shell command that ends it."""
    places = [number for name, number in transaction.partitions if name == topic]
    count = sum(hidden.get(number, 0) for number in places)
    seconds = max(0.0, time.time() - transaction.started_ms / 1000)
    return (
        f"{counted(count, 'offset')} of {topic} (partition {', '.join(map(str, places))}) hidden by the open transaction of "
        f"{printable(transaction.transactional_id)}: producer id {transaction.identity.producer_id}, epoch "
        f"{transaction.identity.epoch}, since {shown_time(transaction.started_ms)} ({seconds:.0f} s). They are shown "
        f"once it commits. If its task is gone: fencepost transactions abort {printable(quote(transaction.transactional_id))} "
        f"{printable(given_cluster())}"
    )
