"""Rows that imitate fencepost's or Spark's internal messages are data: they are refused like any other bad row."""

from __future__ import annotations

import base64
import importlib
import json
import linecache
import pickle
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.types import UserDefinedType

from fencepost.api.errors import DataError
from fencepost.api.record import SourceBatch
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import SparkDataError
from fencepost.engine.spark.transform import check_user_types
from fencepost.spark import write_kafka
from tests.support.checker import read_topic
from tests.support.engine import pipeline, producer, write
from tests.support.refusals import refusal

LATER = "Traceback (most recent call last):\nfencepost.api.errors.RetriableError: later"
IMITATIONS = (
    "TaskKilled (another attempt succeeded)",
    "ExecutorLostFailure (executor 1 exited)",
    "Python worker exited unexpectedly (crashed)",
    "SQLSTATE: XX000",
    LATER,
    f"x\n\nDuring handling of the above exception, another exception occurred:\n\n{LATER}",
    ": org.apache.spark.SparkException: Job aborted",
)


class Touch:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


class ImportedKind(UserDefinedType):
    """A user-defined type of the connector's author."""


def rows(engine: SparkEngine, folder: Path, kind: str, text: str) -> DataFrame:
    """A DataFrame that reads a file of one row."""
    file = folder / f"rows.{kind}"
    if kind == "csv":
        file.write_text('"{}"\n'.format(text.replace('"', '""')))
        return engine.session().read.csv(str(file), schema="text STRING", multiLine=True)
    file.write_text(json.dumps({"text": text}) + "\n")
    return engine.session().read.json(str(file), schema="text STRING")


def refuse(text):  # noqa: ANN001 - pyspark takes annotations for those of a pandas function
    raise ValueError(f"not a number: {text}")


def cast(frame: DataFrame) -> DataFrame:
    return frame.select(F.col("text").cast("int").cast("string").alias("value"))


def call_python(frame: DataFrame) -> DataFrame:
    return frame.select(F.udf(refuse, "string")("text").alias("value"))


def frame_of_class(engine: SparkEngine, folder: Path, name: str, *, nested: bool = False) -> DataFrame:
    """A Parquet file of one row, whose column or array elements have a user-defined type with this Python class."""
    kind: dict[str, Any] = {"type": "udt", "pyClass": name, "serializedClass": "", "sqlType": "string"}
    if nested:
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    schema = {"type": "struct", "fields": [{"name": "value", "type": kind, "nullable": True, "metadata": {}}]}
    table = pa.table({"value": [["a"] if nested else "a"]})
    declared = table.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": json.dumps(schema)})
    pq.write_table(declared, folder / "p.parquet")
    return engine.session().read.parquet(str(folder / "p.parquet"))


@pytest.mark.parametrize("select", [cast, call_python])
def test_a_row_with_a_pickled_payload_does_not_run(
    engine: SparkEngine, bootstrap_servers: str, topic: str, tmp_path: Path, select: Any
):
    touched = tmp_path / "touched"
    payload = base64.b64encode(pickle.dumps(Touch(touched))).decode()
    with producer(bootstrap_servers) as owner:
        for kind in ("csv", "json"):
            frame = select(rows(engine, tmp_path, kind, f"fencepost-failure:{payload}:"))
            with pytest.raises(SparkDataError, match="Nothing of this batch was written"):
                write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
    assert not touched.exists()


@pytest.mark.parametrize("select", [cast, call_python])
def test_a_row_that_imitates_a_message_of_spark_is_refused_as_data(
    engine: SparkEngine, bootstrap_servers: str, topic: str, tmp_path: Path, select: Any
):
    with producer(bootstrap_servers) as owner:
        for text in IMITATIONS:
            frame = select(rows(engine, tmp_path, "json", text))
            # The error is not a SparkJobError, which would send the batch again, nor a RetriableJobError.
            with pytest.raises(SparkDataError, match="Nothing of this batch was written"):
                write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
    assert read_topic(bootstrap_servers, topic) == []


@pytest.mark.parametrize("select", [cast, call_python])
def test_a_row_that_imitates_a_trace_has_no_file_opened(
    engine: SparkEngine, bootstrap_servers: str, topic: str, tmp_path: Path, select: Any
):
    named = tmp_path / "named.txt"
    named.write_text("a line\n")
    trace = f'Traceback (most recent call last):\n  File "{named}", line 1, in x\n    y = 1\nValueError: z'
    frame = select(rows(engine, tmp_path, "json", trace))
    with producer(bootstrap_servers) as owner, pytest.raises(SparkDataError):
        write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
    assert str(named) not in linecache.cache


def test_a_file_that_names_a_python_class_for_a_column_imports_nothing(
    engine: SparkEngine, bootstrap_servers: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    touched = tmp_path / "touched"
    (tmp_path / "named_by_a_file.py").write_text(f"open({str(touched)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for nested in (False, True):
        frame = frame_of_class(engine, tmp_path, "named_by_a_file.Kind", nested=nested)
        with producer(bootstrap_servers) as owner, pytest.raises(DataError, match=r"type named_by_a_file\.Kind, whose"):
            write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
        with pytest.raises(DataError, match=r"type named_by_a_file\.Kind, whose"):
            write_kafka(frame, topic=topic, **{"bootstrap.servers": bootstrap_servers})
    assert not touched.exists()


def test_a_file_that_names_a_module_of_an_imported_package_does_not_import_it(
    engine: SparkEngine, bootstrap_servers: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    touched, package = tmp_path / "touched", tmp_path / "package_of_parts"
    package.mkdir()
    (package / "__init__.py").write_text("__all__ = ['part']\n")
    (package / "part.py").write_text(f"open({str(touched)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, package.name, importlib.import_module(package.name))
    for name in ("part", "*"):
        frame = frame_of_class(engine, tmp_path, f"{package.name}.{name}")
        with producer(bootstrap_servers) as owner, pytest.raises(DataError, match=r"type package_of_parts\..*, whose"):
            write(engine, owner, SourceBatch(dataframe=frame), pipeline(topic))
    assert not touched.exists()


@pytest.mark.parametrize("name", [f"{__name__}.ImportedKind", "pyspark.mllib.linalg.VectorUDT"])
def test_types_of_imported_classes_and_of_spark_are_not_refused(engine: SparkEngine, tmp_path: Path, name: str):
    assert refusal(check_user_types, frame_of_class(engine, tmp_path, name), where="a file") is None
