"""The batch id of a foreachBatch call."""

from __future__ import annotations

import numpy as np
import pytest

from fencepost.api.errors import IllegalStateError
from fencepost.spark.query.streaming_batch import batch_number


@pytest.mark.parametrize("batch", [0, 7, 2**63 - 1, np.int64(3)])
def test_whole_numbers_are_batch_ids(batch: object):
    assert batch_number(batch) == batch


@pytest.mark.parametrize(
    ("batch", "told"),
    [(None, "it is None"), ("3", "it is a str"), (1.0, "it is a float"), (True, "it is True"), (-1, "it is -1"),
     (2**63, f"it is {2**63}")],
)  # fmt: skip
def test_an_invalid_batch_id_is_refused_with_advice(batch: object, told: str):
    with pytest.raises(IllegalStateError, match=rf"{told}: call exactly_once\(\.\.\.\) with the DataFrame"):
        batch_number(batch)
