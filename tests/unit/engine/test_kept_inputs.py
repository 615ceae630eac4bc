"""Dead letters of transformed records contain the original rows, which are kept for that."""

from __future__ import annotations

import pyarrow as pa

from fencepost.engine.kept_inputs import KeptInputs


def rows(*values: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values)})


def test_a_row_is_found_by_its_number_until_its_batch_is_forgotten() -> None:
    inputs = KeptInputs()
    inputs.add(0, rows("a", "b"))
    inputs.add(2, rows("c"))
    assert [inputs.content(number) for number in (1, 2, 3)] == [{"value": "b"}, {"value": "c"}, None]
    inputs.forget(before=1)
    assert inputs.content(0) == {"value": "a"}, "a batch is kept until all of its rows are forgotten"
    inputs.forget(before=2)
    assert [inputs.content(number) for number in (1, 2)] == [None, {"value": "c"}]
