"""What the connectors of bench/java_connectors.py read: a round's records, and the connector's configuration.

A source has `count` records a round. It makes them in files, topics or tables of its own (`create`, `fill`), and gives
the configuration of a connector that reads them and the topic that it writes (`connector`, which removes at its end
everything that the connector used).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.embedded.jars import KAFKA_VERSION, JarSet
from fencepost.embedded.postgres import EmbeddedPostgres
from java_worker import wait_for

_MIRRORED_PARTITIONS = 3
_ACTIVE = "select 1 from pg_replication_slots where active and slot_name = %s"
FILE_STREAM = "org.apache.kafka.connect.file.FileStreamSourceConnector"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_EACH_SECOND = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1000"}

PLUGINS = {
    "file": JarSet(
        f"connect-file-{KAFKA_VERSION}", "file", (), alone=(("org.apache.kafka", "connect-file", KAFKA_VERSION),)
    ),
    "mirror": JarSet(
        f"connect-mirror-{KAFKA_VERSION}", "mirror", (("org.apache.kafka", "connect-mirror", KAFKA_VERSION),)
    ),
    "debezium": JarSet(
        "debezium-postgres-3.7.0", "debezium", (("io.debezium", "debezium-connector-postgres", "3.7.0.Final"),)
    ),
}
"""The jars of each source's connector."""


class Source(Protocol):
    """Where a connector reads."""

    partitions: int
    """The partitions of the topic that the connector writes."""
    reads_only_new: bool
    """Whether a connector reads only what was added since its `connector` context was entered."""

    def create(self, name: str) -> None:
        """Create a place for records."""

    def fill(self, name: str) -> None:
        """Append the records of a round."""

    def connector(self, name: str, source: str) -> contextlib.AbstractContextManager[tuple[dict[str, str], str]]:
        """Return the configuration of a connector that reads a place, and the topic that it writes."""


class FileSource:
    """Lines of 100 bytes, a transaction for each poll of `batch` lines."""

    partitions = 1
    reads_only_new = False

    def __init__(self, folder: Path, servers: str, count: int, batch: int) -> None:
        self._folder, self._count, self._batch = folder, count, batch
        self._admin = AdminClient({"bootstrap.servers": servers})

    def create(self, name: str) -> None:
        (self._folder / name).touch()

    def fill(self, name: str) -> None:
        with (self._folder / name).open("ab") as out:
            for number in range(self._count):
                out.write(_line(number) + b"\n")

    @contextlib.contextmanager
    def connector(self, name: str, source: str) -> Iterator[tuple[dict[str, str], str]]:
        self._admin.create_topics([NewTopic(name, 1, 1)])[name].result()
        yield (
            {
                "connector.class": FILE_STREAM,
                "file": str(self._folder / source),
                "topic": name,
                "batch.size": str(self._batch),
                "transaction.boundary": "poll",
            },
            name,
        )
        self._admin.delete_topics([name])[name].result()


class MirrorSource:
    """Records of 100 bytes in another topic of the same cluster, a transaction each second."""

    partitions = _MIRRORED_PARTITIONS
    reads_only_new = False

    def __init__(self, servers: str, count: int) -> None:
        self._servers, self._count = servers, count
        self._admin = AdminClient({"bootstrap.servers": servers})

    def create(self, name: str) -> None:
        self._admin.create_topics([NewTopic(name, _MIRRORED_PARTITIONS, 1)])[name].result()

    def fill(self, name: str) -> None:
        producer = Producer(
            {"bootstrap.servers": self._servers, "linger.ms": 20, "queue.buffering.max.messages": 10**6}
        )
        for number in range(self._count):
            producer.produce(name, _line(number), partition=number % _MIRRORED_PARTITIONS)
            if number % 10_000 == 0:
                producer.poll(0)
        producer.flush()

    @contextlib.contextmanager
    def connector(self, name: str, source: str) -> Iterator[tuple[dict[str, str], str]]:
        topic = f"{name}.{source}"
        yield (
            {
                "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "source.cluster.alias": name,
                "target.cluster.alias": f"{name}-west",
                "source.cluster.bootstrap.servers": self._servers,
                "target.cluster.bootstrap.servers": self._servers,
                "topics": source,
                "source.consumer.isolation.level": "read_committed",
                "consumer.isolation.level": "read_committed",
                "consumer.max.poll.records": "2000",
                "replication.factor": "1",
                "offset-syncs.topic.replication.factor": "1",
                "sync.topic.acls.enabled": "false",
                **_EACH_SECOND,
                **{f"{part}.converter": _BYTES for part in ("key", "value", "header")},
            },
            topic,
        )
        self._admin.delete_topics([topic])[topic].result()


class DebeziumSource:
    """Inserts into a table of PostgreSQL, a transaction each second. Each connector gets a new table."""

    partitions = 1
    reads_only_new = True

    def __init__(self, postgres: EmbeddedPostgres, servers: str, count: int) -> None:
        self._postgres, self._count = postgres, count
        self._admin = AdminClient({"bootstrap.servers": servers})

    def create(self, name: str) -> None:
        with self._database() as database:
            database.execute(f"drop table if exists {name}".encode())
            columns = "id bigint generated always as identity primary key, name text, price numeric(10,2)"
            database.execute(f"create table {name} ({columns})".encode())

    def fill(self, name: str) -> None:
        from psycopg.sql import SQL, Identifier  # noqa: PLC0415 - only this source needs psycopg

        rows = SQL(
            "insert into {} (name, price) select 'item number ' || n, n / 100.0 from generate_series(%s::bigint, %s::bigint) n"
        ).format(Identifier(name))
        with self._database() as database:
            for first in range(0, self._count, 1_000):
                database.execute(rows, [first, first + 999])

    @contextlib.contextmanager
    def connector(self, name: str, source: str) -> Iterator[tuple[dict[str, str], str]]:
        slot, topic = name.replace("-", "_"), f"{name}.public.{source}"
        self._admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
        self.create(source)
        with self._database() as database:
            database.execute(f"create publication {slot} for table {source}".encode())
            database.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
            yield self._config(name, source, slot), topic
            wait_for(lambda: not database.execute(_ACTIVE, [slot]).fetchall())
            database.execute("select pg_drop_replication_slot(%s)", [slot])
            database.execute(f"drop publication {slot}".encode())
        self._admin.delete_topics([topic])[topic].result()

    def _config(self, name: str, source: str, slot: str) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": "127.0.0.1",
            "database.port": str(self._postgres.port),
            "database.user": "postgres",
            "database.password": "none",
            "database.dbname": "postgres",
            "topic.prefix": name,
            "table.include.list": f"public.{source}",
            "slot.name": slot,
            "publication.name": slot,
            "snapshot.mode": "no_data",
            # Debezium sleeps this long, 500 ms by default, once the server had nothing ready five times.
            "poll.interval.ms": "20",
            **_EACH_SECOND,
            **{f"{part}.converter": _JSON for part in ("key", "value")},
            **{f"{part}.converter.schemas.enable": "false" for part in ("key", "value")},
        }

    def _database(self) -> Any:
        import psycopg  # noqa: PLC0415 - only this source needs psycopg

        return psycopg.connect(self._postgres.conninfo(), autocommit=True)


def _line(number: int) -> bytes:
    return b"%09d %s" % (number, b"abcdefghi " * 9)
