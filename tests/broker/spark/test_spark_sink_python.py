"""The Spark sink in a session whose executors run a different Python from the driver's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from fencepost.api.errors import FencepostError
from fencepost.engine.engine import SparkEngine
from fencepost.spark import write_kafka
from tests.support.checker import read_topic


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    # As in a user's session, Spark's own daemon is used: a worker's daemon imports fencepost itself.
    engine = SparkEngine({"spark.master": "local[2]", "spark.python.daemon.module": "pyspark.daemon"})
    yield engine.session()
    engine.stop()


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 3, numPartitions=1).selectExpr("CAST(id AS STRING) AS value")


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python without any packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    return tmp_path / "bare" / "bin" / "python"


@pytest.mark.parametrize("options", [{}, {"transforms": "a", "errors.tolerance": "all"}])
def test_a_python_without_the_packages_fails_the_batch_and_refuses_no_row(
    rows: DataFrame, bootstrap_servers: str, topic: str, bare_python: Path, options: dict[str, str]
):
    """The rows are not to blame: if they were skipped as refused rows, they would be lost."""
    told = {"bootstrap.servers": bootstrap_servers, "topic": topic, **options}
    if options:
        told["transforms.a.type"] = "tests.broker.engine.spark.test_engine_transforms.Shouted"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows.sparkSession.sparkContext, "pythonExec", str(bare_python))
        with pytest.raises(FencepostError) as raised:
            write_kafka(rows, **told)
    text = str(raised.value)
    assert "ModuleNotFoundError" in text
    assert "PYSPARK_PYTHON" in text
    assert "correct the data" not in text
    assert read_topic(bootstrap_servers, topic) == []
    write_kafka(rows, **told)
    assert len(read_topic(bootstrap_servers, topic)) == 3
