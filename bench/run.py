"""All benchmarks one after the other, as `make bench` runs them; name some to run only those.

    python bench/run.py [writer] [files] [memory] [polled] [encoder] [converters] [reader] [fencing] [reconfiguration]
                        [worker] [spark_sink] [cold] [jdbc] [formats] [many_files] [transforms] [java]
                        [read_ahead] [file_stages]

The machine should be idle besides. What the figures mean stands in docs/benchmarks.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
BENCHMARKS = {
    "writer": ["writer.py", "--rounds", "5"],
    "files": ["file_to_kafka.py", "--rounds", "5", "--lines", "5000000"],
    "memory": ["file_to_kafka.py", "--memory", "--lines", "5000000"],
    "polled": ["polled_batches.py", "--batches", "300", "--records", "100", "--transforms"],
    "encoder": ["encoder.py"],
    "converters": ["converters.py"],
    "reader": ["file_reader.py", "--rounds", "5"],
    "formats": ["file_formats.py", "--rounds", "3"],
    "many_files": ["many_files.py", "--rounds", "5"],
    "fencing": ["fencing.py", "--rounds", "5"],
    "reconfiguration": ["reconfiguration.py", "--rounds", "5"],
    "worker": ["worker.py", "--rounds", "5"],
    "cdc": ["cdc.py", "--rounds", "5"],
    "spark_sink": ["spark_sink.py", "--rounds", "5", "--rows", "5000000"],
    "cold": ["cold.py", "--rounds", "5"],
    "jdbc": ["jdbc.py", "--rounds", "5"],
    "transforms": ["transforms.py", "--rounds", "5"],
    "file_stages": ["file_stages.py", "--rounds", "5"],
    "java": ["java_connectors.py", "file", "--rounds", "5"],
    "read_ahead": ["read_ahead.py", "--rounds", "7"],
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, all if none is named; return how many failed."""
    unknown = set(names) - BENCHMARKS.keys()
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(sorted(unknown))}: take some of {', '.join(BENCHMARKS)}")
    failed = 0
    for name in names or BENCHMARKS:
        script, *arguments = BENCHMARKS[name]
        print(f"\n== {name}: python bench/{' '.join([script, *arguments])}", flush=True)
        failed += subprocess.run([sys.executable, str(FOLDER / script), *arguments], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
