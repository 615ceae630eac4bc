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
    """Converts a column of Connect data to the bytes that go to Kafka.

    A converter works on Arrow arrays, both in the worker and on Spark's executors. It is pickled to get to executors:
    after `configure` it must contain only plain data.
    """

    @abstractmethod
    def config(self) -> ConfigDef:
        """Return the definitions of the converter's own properties."""

    @abstractmethod
    def configure(self, configs: Mapping[str, str], *, is_key: bool) -> None:
        """Set the properties that begin with `key.converter.` or `value.converter.`, without this prefix."""

    def check(self, schemas: Mapping[str, DataType | None]) -> None:  # noqa: B027 - most converters need nothing else
        """When a configuration is validated, check that the services that the converter needs are available.

        `schemas` has the schema of each topic's values, as far as schemas are known before anything runs. Nothing may
        be changed; for example, no schema may be registered. Raises ConfigError that names a property. This must not
        take longer than some seconds.
        """

    def prepare(self, topic: str, schema: DataType | None) -> None:  # noqa: B027 - most converters have nothing to decide
        """Decide how values of a schema are written to a topic, for example under which id of a schema registry.

        This method is called in the worker, or in the driver of a Spark sink, before the beginning of the transaction
        in which the first such values are written, and again for later batches. After it, `from_connect_data` is
        called, in the same process or on executors, which get the decisions with the pickled converter. An error fails
        the task, whatever `errors.tolerance` is. After a RetriableError the task waits, and calls `prepare` again.
        """

    @abstractmethod
    def from_connect_data(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        """Return a `binary` or `large_binary` array as long as `values`. A null stays null if the format allows that.

        `schema` is the values' Spark type, or None if they are schemaless. Schemaless structures are given as JSON text
        of Arrow's type `pa.json_()`, other schemaless values as the corresponding Arrow type. A column that contains
        only schemaless nulls is not passed to converters: it is null in every format. Raises DataError for values that
        the format cannot represent.
        """

    def record_header(self, topic: str, schema: DataType | None) -> tuple[str, bytes] | None:  # noqa: ARG002 - for overriding
        """Return a header to add to each record that has a value of this schema, None for no header."""
        return None


class HeaderConverter(ABC):
    """Converts the values of record headers to bytes, as a Converter does for keys and values."""

    @abstractmethod
    def config(self) -> ConfigDef:
        """Return the definitions of the converter's own properties."""

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties that begin with `header.converter.`, without this prefix."""

    def check(self, schemas: Mapping[str, DataType | None]) -> None:  # noqa: B027 - most converters need nothing else
        """Check that the services that the converter needs are available, as `Converter.check` does."""

    def prepare(self, topic: str, schema: DataType | None) -> None:  # noqa: B027 - most converters have nothing to decide
        """Decide how headers of a schema are written to a topic, as `Converter.prepare` does for values."""

    @abstractmethod
    def from_connect_header(self, topic: str, schema: DataType | None, values: pa.Array) -> pa.Array:
        """Return a `binary` array as long as `values`."""


class Transformation(ABC):
    """Changes records by expressions that Spark optimizes. It works on columns, never on single records.

    The DataFrame has the columns `topic`, `partition`, `key`, `value`, `timestamp` (BIGINT milliseconds) and `headers`,
    and other columns whose names begin with `__fencepost`, which must be kept unchanged. Rows that are filtered out are
    dropped records. A record may become several rows. These rows must have the record's `__fencepost` columns, follow
    each other in order, and stay between the rows of the record's neighbours, as `explode` leaves them. Either all of
    them are written or none, under the source offset of the record. If one of them is refused, the whole record is
    skipped. Rows may not be added in any other way, nor be sorted or aggregated.
    """

    @abstractmethod
    def config(self) -> ConfigDef:
        """Return the definitions of the transform's own properties."""

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties that begin with `transforms.<alias>.`, without this prefix."""

    @abstractmethod
    def apply(self, records: DataFrame) -> DataFrame:
        """Return the changed records."""


class Predicate(ABC):
    """Selects the records to which a transform applies."""

    @abstractmethod
    def config(self) -> ConfigDef:
        """Return the definitions of the predicate's own properties."""

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Set the properties that begin with `predicates.<alias>.`, without this prefix."""

    @abstractmethod
    def test(self, records: DataFrame) -> Column:
        """Return a BOOLEAN column over the records: True for selected records."""
