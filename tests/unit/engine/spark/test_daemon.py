"""The daemon of Python workers has imported the modules of their first batch."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

from fencepost.engine.spark.daemon import quiet_if_cancelled

_FIRST_BATCH = """
import json
import sys

from fencepost.engine.spark.daemon import import_ahead

import_ahead()
known = set(sys.modules)

import pyarrow as pa

from fencepost.converters import StringConverter
from fencepost.engine.conversion import convert
from fencepost.engine.column_types import column_types
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.reports import Report, report_text
from fencepost.api.ddl import parse_columns

converter = StringConverter()
pipeline = Pipeline((), converter, converter, converter, "topic")
rows = pa.record_batch({"value": pa.array(["a", None])})
types = column_types(parse_columns("value STRING"), where="the rows")
(converted,) = convert(rows, types, pipeline, ErrorHandler(pipeline.errors))
assert len(converted.records) == 2
report_text(Report())
print(json.dumps(sorted(set(sys.modules) - known)))
"""


def test_a_first_batch_imports_nothing():
    # Runs in a separate process, because this one has imported more modules.
    found = subprocess.run([sys.executable, "-c", _FIRST_BATCH], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == []


def test_a_worker_whose_connection_the_jvm_has_closed_ends_quietly():
    ours, jvms = socket.socketpair()

    def work(sock: socket.socket, authenticated: bool) -> int:
        assert authenticated
        jvms.close()
        sock.sendall(b"a result")
        return 0

    with ours:
        assert quiet_if_cancelled(work)(ours, True) == 1
