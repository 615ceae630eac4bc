"""A batch of columns keeps the records that its connector's own pipeline refused."""

from __future__ import annotations

import pyarrow as pa

from fencepost.api.own_pipeline import OwnPipeline, RefusedByPipeline
from fencepost.api.record import SourceBatch


def test_a_batch_of_columns_says_what_its_pipeline_refused_without_showing_it():
    refused = RefusedByPipeline(
        "TRANSFORMATION",
        "acme.Smt",
        "t",
        ValueError("bad"),
        "acme.Bad",
        "bad",
        "trace",
        {"p": 1},
        {"o": 2},
        value=b"secret",
    )
    batch = SourceBatch.of_columns(pa.RecordBatch.from_pydict({"value": [b"v"]}), pipeline=OwnPipeline(2, 0, [refused]))
    assert batch.pipeline is not None
    assert batch.pipeline.polled == 2
    assert "secret" not in repr(batch.pipeline)
