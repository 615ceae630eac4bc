"""Local properties from Spark with which a task of format("fencepost") refuses to write."""

from __future__ import annotations

import pytest
from pyspark import TaskContext

from fencepost.api.errors import ConfigError
from fencepost.spark.format.task_settings import check_task_settings


def test_a_task_of_continuous_processing_writes_nothing(monkeypatch: pytest.MonkeyPatch):
    # PySpark keeps the first TaskContext as the process's own, and then refuses to start a session in the process.
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    context = TaskContext()
    context._localProperties = {"__epoch_coordinator_id": "3c0b"}
    with pytest.raises(ConfigError, match="a query with a continuous trigger has none"):
        check_task_settings(context)
