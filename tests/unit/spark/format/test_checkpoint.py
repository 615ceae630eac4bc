"""The data that a sink reads from the checkpoint of a streaming query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fencepost.api.errors import ConfigError
from fencepost.spark.config.progress import Progress
from fencepost.spark.format.checkpoint import planned_batch, query_id

METADATA = {"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_123, "conf": {"spark.sql.shuffle.partitions": "1"}}


def entry(version: str = "v1", metadata: object = METADATA) -> str:
    return f'{version}\n{json.dumps(metadata)}\n{{"logOffset":1}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The checkpoint of a query that has planned the batches 0 to 10."""
    found = tmp_path / "a checkpoint"
    (found / "offsets").mkdir(parents=True)
    (found / "metadata").write_text('{"id":"a query"}')
    for batch in range(11):
        (found / "offsets" / str(batch)).write_text(entry(metadata=METADATA | {"batchTimestampMs": batch}))
        (found / "offsets" / f".{batch}.crc").write_bytes(b"\x00")
    return found


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "file://localhost"])
def test_the_newest_batch_is_that_with_the_highest_number(folder: Path, prefix: str):
    assert planned_batch(f"{prefix}{folder}") == Progress("a query", 10, 10)


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_location_with_dots_is_the_folder_that_spark_makes_of_it(folder: Path, tmp_path: Path, prefix: str):
    # Hadoop resolves `..` in the text, whether the part before it exists, or is a link, or not.
    assert planned_batch(f"{prefix}{tmp_path}/missing/../{folder.name}/.") == Progress("a query", 10, 10)
    (tmp_path / "elsewhere" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "below")
    assert query_id(f"{prefix}{tmp_path}/link/../{folder.name}") == "a query"


def test_a_batch_of_the_second_version_of_the_log_is_read(folder: Path):
    (folder / "offsets" / "11").write_text(entry("v2"))
    assert planned_batch(str(folder)) == Progress("a query", 11, 1_700_000_000_123)


@pytest.mark.parametrize(
    "text", ["", "v1", "v1\n\n0", entry("log"), entry(metadata={}), entry(metadata=[]), entry(metadata=None), "v1\n{"]
)
def test_a_log_that_is_not_as_expected_is_refused_with_the_remedy(folder: Path, text: str):
    (folder / "offsets" / "11").write_text(text)
    with pytest.raises(ConfigError, match=r"cannot be read: .*foreachBatch\(exactly_once"):
        planned_batch(str(folder))


@pytest.mark.parametrize("location", ["s3a://bucket/checkpoint", "hdfs://host:8020/checkpoint", "hdfs:/checkpoint"])
def test_a_checkpoint_that_is_not_a_folder_is_refused_with_advice(location: str):
    for read in (planned_batch, query_id):
        with pytest.raises(ConfigError, match=r"not a folder of the machine.*foreachBatch\(exactly_once"):
            read(location)


def test_a_checkpoint_without_batches_or_metadata_is_refused(folder: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match="No such file"):
        planned_batch(str(tmp_path / "none"))
    (folder / "metadata").unlink()
    with pytest.raises(ConfigError, match="No such file"):
        query_id(str(folder))


def test_a_checkpoint_without_a_planned_batch_is_of_continuous_processing(tmp_path: Path):
    (tmp_path / "offsets").mkdir()
    with pytest.raises(ConfigError, match=r"continuous trigger has none: use trigger\(processingTime"):
        planned_batch(str(tmp_path))
