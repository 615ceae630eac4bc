from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from fencepost.api.errors import ConfigError
from fencepost.spark.sink.session_check import check_classic


@pytest.mark.parametrize("frame", [pd.DataFrame({"a": [1]}), None, [1]])
def test_anything_but_a_dataframe_of_spark_is_refused(frame: Any) -> None:
    kind = f"{type(frame).__module__}.{type(frame).__qualname__}"
    with pytest.raises(ConfigError, match=rf"this is {kind}: .* spark\.createDataFrame"):
        check_classic(frame)
