"""Reads the last records of topics for the page at /ui, decoded by the converters of the connectors that write them.

Only topics that connectors of this cluster write are read. The reader has the connector's own consumer properties, so
records that the connector may not read are not shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.api.errors import ConfigError, RetriableError
from fencepost.api.secrets import SECRETS
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.error_handling import DEAD_LETTER_TOPIC
from fencepost.config.properties import below
from fencepost.config.worker_config import WorkerConfig
from fencepost.converters.decoded_json import to_json
from fencepost.converters.record_decoding import RecordDecoder, decoder
from fencepost.converters.record_reading import RoleReading, reading_by
from fencepost.herder.core.active_topics import ActiveTopics
from fencepost.herder.core.calls import Calls, outcome_of
from fencepost.herder.core.observation import RecordsView, ShownRecord, SkippedRecords
from fencepost.herder.errors import ForbiddenError, NotFoundError, ServiceUnavailableError
from fencepost.herder.requests.connector_states import ConnectorStates
from fencepost.herder.work.parts import HerderParts
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord, SkippedBatch
from fencepost.kafka.consumer.last_records import LastRecords, ReadLimits, last_records
from fencepost.kafka.consumer.partition_requests import EARLIEST, LATEST
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import TopicNotFoundError
from fencepost.runtime.connector.client_properties import reading_config
from fencepost.runtime.turns import Turns

_AT_ONCE: Final = 2
_WAITING: Final = 8
_READING_MS: Final = 10_000
_HELD_BYTES: Final = 8 * 1024 * 1024
_READ_MEGABYTES: Final = 32
"""The largest memory, in MiB, for the records of one fetch: a small compressed batch may contain any amount of data."""
_TOO_LARGE: Final = (
    f"The batch of these records takes more than {_READ_MEGABYTES} MiB once it is decompressed, which is more than the page "
    "reads"
)
_FIRST_SPAN: Final = 4
"""The number of offsets in the first read. It is small, because records may be large; later reads may cover more."""
_SHOWN: Final = 8_192
"""The largest number of characters of a key, value or header that are shown."""
_HEADERS: Final = 50

_OFFSETS_TOPIC: Final = "offsets.storage.topic"
_OF_KAFKA: Final = "__"
_REGISTRY_LIMITS: Final = {
    "http.connect.timeout.ms": 3_000,
    "http.read.timeout.ms": 5_000,
    "max.retries": 0,
}
"""Limits for a converter's registry client. They are short, because a user waits for the page."""


class TopicRecords:
    """Reads topics on its own threads, a few at once. Call it on the event loop."""

    def __init__(self, parts: HerderParts, states: ConnectorStates) -> None:
        self._parts = parts
        self._states = states
        self._calls = Calls(parts.loop, Turns(_AT_ONCE))
        self._reads = 0

    async def read(self, topic: str, count: int, connector: str | None) -> RecordsView:
        """Return the last records. Raises the errors of `Observation.records`, and of reading a topic."""
        writers = self._writers(topic)
        if connector is not None:
            self._states.config(connector)
        if not writers or connector not in (None, *writers):
            whose = "No connector of this group is" if connector is None else f"The connector {connector} is not"
            raise ForbiddenError(
                f"{whose} known to have written to {topic}, so its records are not shown; a standalone worker knows what was "
                f"written since its start. fencepost tail {topic} shows them"
            )
        if self._reads >= _WAITING:
            raise ServiceUnavailableError("Records of other topics are being read for other requests: ask again soon")
        chosen = connector or writers[0]
        config = self._states.config(chosen)
        self._reads += 1
        reading = asyncio.ensure_future(self._calls.run(lambda: self._read(topic, count, chosen, config)))
        reading.add_done_callback(self._ended)
        try:
            records, complete, skipped = await outcome_of(reading)
        except TopicNotFoundError as error:
            raise NotFoundError(str(error)) from error
        return RecordsView(topic, chosen, writers, records, complete, skipped)

    def _ended(self, _: object) -> None:
        self._reads -= 1

    def _writers(self, topic: str) -> list[str]:
        """Return the connectors that write to a topic. Raises ForbiddenError for topics with the state of workers."""
        names = self._parts.state.connectors()
        configs = {name: self._states.config(name) for name in names}
        internal = {each.name for each in self._parts.config.internal_topics}
        internal |= {config[_OFFSETS_TOPIC] for config in configs.values() if _OFFSETS_TOPIC in config}
        if topic in internal or topic.startswith(_OF_KAFKA):
            raise ForbiddenError(f"{topic} is an internal topic, whose records are not shown")
        tracked = self._parts.config.topic_tracking_enable
        topics = ActiveTopics(self._parts.config, self._parts.statuses)
        return [
            name
            for name, config in configs.items()
            if config.get(DEAD_LETTER_TOPIC) == topic or (tracked and topic in topics.topics(name))
        ]

    def _read(
        self, topic: str, count: int, connector: str, properties: Mapping[str, str]
    ) -> tuple[list[ShownRecord], bool, list[SkippedRecords]]:
        worker = self._parts.worker_for(connector)
        config = worker.connector_config(properties)
        found, skipped = self._last(reading_config(worker.config, config), topic, count)
        reading = _converters(worker.config, config)
        dead_letters = config.properties.get(DEAD_LETTER_TOPIC) == topic
        with reading_by(reading) as by:
            key = _Shown(_decoder(by.key, is_key=True, guess=dead_letters))
            value = _Shown(_decoder(by.value, is_key=False, guess=dead_letters))
            shown = [_shown(record, key, value) for record in reversed(found.records)]
        newest = sorted(skipped, key=lambda each: each.last_offset, reverse=True)[:count]
        return shown, found.complete, [_skipped_records(each) for each in newest]

    def _last(self, config: ClientConfig, topic: str, count: int) -> tuple[LastRecords, set[SkippedBatch]]:
        deadline = Deadline.after(_READING_MS)
        most_bytes = _READ_MEGABYTES * 1024 * 1024
        with self._parts.worker.clients.topic_reader(config, topic, most_bytes=most_bytes) as reader:
            ends = reader.committed_offsets(LATEST, _READING_MS)
            first = reader.committed_offsets(EARLIEST, _READING_MS)
            limits = ReadLimits(_HELD_BYTES, deadline)
            found = last_records(reader, count, first, ends, poll=reader.poll, span=_FIRST_SPAN, limits=limits)
            return found, set(reader.take_skipped())


def _skipped_records(skipped: SkippedBatch) -> SkippedRecords:
    partition, first, last, problem = skipped
    why = _TOO_LARGE if not problem else f"The batch of these records cannot be read: {SECRETS.hidden(problem)}"
    return SkippedRecords(partition, first, last, why)


def _converters(worker: WorkerConfig, config: ConnectorConfig) -> dict[str, str]:
    """Return the properties of the connector's converters, or of the worker's, with short time-outs for registries."""
    found: dict[str, str] = {}
    for role in ("key.converter", "value.converter"):
        properties = config.properties if role in config.properties else worker.properties
        own = below(properties, f"{role}.")
        limits = {name: str(min(most, _number(own.get(name), most))) for name, most in _REGISTRY_LIMITS.items()}
        found |= {role: properties[role], **{f"{role}.{name}": text for name, text in {**own, **limits}.items()}}
    return found


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.strip().isdecimal() else otherwise


def _decoder(reading: RoleReading, *, is_key: bool, guess: bool) -> RecordDecoder:
    """Return the decoder of keys or values.

    With `guess`, the decoder guesses the format, as for dead letters. It also guesses the format of an unknown
    converter.
    """
    try:
        return reading.decoder("auto" if guess else None, is_key=is_key)
    except ConfigError:
        return reading.decoder("auto", is_key=is_key)


class _Shown:
    """Decodes keys or values. After a request that its registry did not answer, the registry is not asked again."""

    def __init__(self, decode: RecordDecoder) -> None:
        self._decode = decode
        self._problem: str | None = None

    def __call__(self, data: bytes | None, headers: Mapping[str, bytes | None]) -> str | None:
        """Return JSON as text. A null of Kafka becomes None; a null of JSON becomes a text."""
        return None if data is None else _text(self._decoded(data, headers))

    def _decoded(self, data: bytes, headers: Mapping[str, bytes | None]) -> Any:
        problem = self._problem
        if problem is None:
            try:
                return self._decode(data, headers)
            except ValueError as error:
                problem = str(error)
            except (RetriableError, ConfigError) as error:
                self._problem = problem = str(error)
        return {**decoder("ByteArrayConverter")(data), "error": problem}


def _shown(record: ConsumedRecord, key: _Shown, value: _Shown) -> ShownRecord:
    given = dict(record.headers)
    texts = {"key": key(record.key, given), "value": value(record.value, given)}
    headers = [(SECRETS.hidden(name), _header(data)) for name, data in record.headers[:_HEADERS]]
    cut = [part for part, text in texts.items() if text is not None and len(text) > _SHOWN]
    if len(record.headers) > _HEADERS or any(len(name) > _SHOWN or len(text or "") > _SHOWN for name, text in headers):
        cut.append("headers")
    return ShownRecord(
        record.partition,
        record.offset,
        record.timestamp,
        _shortened(texts["key"]),
        _shortened(texts["value"]),
        [(name[:_SHOWN], _shortened(text)) for name, text in headers],
        cut,
    )


def _header(data: bytes | None) -> str | None:
    decode: Callable[[bytes], Any] = decoder("auto")
    return None if data is None else _text(decode(data))


def _text(value: Any) -> str:
    """Return decoded data as JSON, without the passwords that the worker knows."""
    return SECRETS.hidden(to_json(value))


def _shortened(text: str | None) -> str | None:
    return None if text is None else text[:_SHOWN]
