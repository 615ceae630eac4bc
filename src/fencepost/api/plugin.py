"""Plugins of the pipeline: single message transforms (on Spark's Catalyst) and converters (on Arrow)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from fencepost.api.config_def import ConfigDef


class Converter(ABC):
    """Turns a column of Connect data into the bytes that go to Kafka.

    It runs on Arrow arrays, in the worker and on Spark's executors alike, and is pickled to get there: after
    `configure` it holds plain data only.
    """

    @abstractmethod
    def config(self) -> ConfigDef:
        """Return the definitions of the converter's own properties."""

    @abstractmethod
    def configure(self, configs: Mapping[str, str], *, is_key: bool) -> None:
        """Set the properties under `key.converter.` or `value.converter.`, without that prefix."""

    def check(self, schemas: Mapping[str, DataType | None]) -> None:  # noqa: B027 - most converters need nothing else
        """Ask the services that the converter needs whether they are there, when a configuration is validated.

        `schemas` has the schema of the values of each topic, as far as it is known before anything runs. Nothing may be
        changed, such as registered. Raises ConfigError that names a property. It must not take longer than some seconds.
        """

    def prepare(self, topic: str, schema: DataType | None) -> None:  # noqa: B027 - most converters have nothing to decide
        """Decide how values of a schema are written to a topic, for example under which id of a schema registry.

        It is called in the worker, or in the driver of a Spark sink, before the transaction begins that the first such
        values are written in, and again for later batches. `from_connect_data` follows, there or on executors, which get
        what was decided with the pickled converter. An error fails the task, whatever `errors.tolerance` says; after a
        RetriableError the task waits, and calls it again.
        """

    @abstractmethod
    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        """Return a `binary` or `large_binary` array as long as `values`; a null stays null if the format allows.

        `schema` is the values' Spark type, or None if they are schemaless. Schemaless structures arrive as JSON text of
        Arrow's type `pa.json_()`, other schemaless values as the matching Arrow type. A column of nothing but schemaless
        nulls does not arrive: it is null in every format. Raises DataError for values that the format cannot represent.
        """

    def record_header(self, topic: str, schema: DataType | None) -> tuple[str, bytes] | None:  # noqa: ARG002 - for overriding
        """Return a header for each record that has a value of this schema, None for none."""
        return None


class HeaderConverter(ABC):
    """Turns the values of record headers into bytes, like a Converter."""

    @abstractmethod
    def config(self) -> ConfigDef:
        """Return the definitions of the converter's own properties."""

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties under `header.converter.`, without that prefix."""

    def check(self, schemas: Mapping[str, DataType | None]) -> None:  # noqa: B027 - most converters need nothing else
        """Ask the services that the converter needs whether they are there, as `Converter.check`."""

    def prepare(self, topic: str, schema: DataType | None) -> None:  # noqa: B027 - most converters have nothing to decide
        """Decide how headers of a schema are written to a topic, as `Converter.prepare`."""

    @abstractmethod
    def from_connect_header(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        """Return a `binary` array as long as `values`."""


class Transformation(ABC):
    """Changes records with expressions that Spark optimizes; it works on columns, never on single records.

    The DataFrame has the columns `topic`, `partition`, `key`, `value`, `timestamp` (BIGINT milliseconds) and `headers`,
    and others whose names begin with `__fencepost`, which must be kept unchanged. Rows that are filtered out are
    dropped records. A record may become several rows: they have its `__fencepost` columns, follow each other in their
    order, and stay between the rows of its neighbours, as `explode` leaves them. They are written all or not at all,
    under the source offset of the record, which is skipped as a whole if one of them is refused. Rows may not be added
    otherwise, nor sorted or aggregated.
    """

    @abstractmethod
    def config(self) -> ConfigDef:
        """Return the definitions of the transform's own properties."""

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties under `transforms.<alias>.`, without that prefix."""

    @abstractmethod
    def apply(self, records: DataFrame) -> DataFrame:
        """Return the changed records."""


class Predicate(ABC):
    """Selects the records that a transform applies to."""

    @abstractmethod
    def config(self) -> ConfigDef:
        """Return the definitions of the predicate's own properties."""

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties under `predicates.<alias>.`, without that prefix."""

    @abstractmethod
    def test(self, records: DataFrame) -> Column:
        """Return a BOOLEAN column over the records."""
