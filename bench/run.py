"""All benchmarks one after the other, as `make bench` runs them; name some to run only those.

    python bench/run.py [writer] [files] [memory] [polled] [encoder] [converters] [reader] [fencing] [reconfiguration]
                        [worker] [cdc] [spark_sink] [keyed] [avro] [cold] [jdbc] [formats] [many_files] [transforms]
                        [refused] [java] [java_starts] [java_bridge] [read_ahead] [file_stages] [idle_tasks]
                        [offsets_topic] [growth]

The last one fails if a cost grows faster than the number of connectors, tasks, source partitions, topics or files, or if a
worker falls out of its group. The last line names what failed. The machine should be idle besides. What the figures mean stands in docs/benchmarks.md.
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
    "keyed": ["keyed_frames.py", "--rounds", "5", "--partitions", "1", "16", "64"],
    "avro": ["avro_to_kafka.py", "--rounds", "5", "--lines", "2000000"],
    "cold": ["cold.py", "--rounds", "5"],
    "jdbc": ["jdbc.py", "--rounds", "5"],
    "transforms": ["transforms.py", "--rounds", "5"],
    "refused": ["refused_rows.py", "--rounds", "5", "--rows", "200000", "--only", "sql"],
    "file_stages": ["file_stages.py", "--rounds", "5"],
    "java": ["java_connectors.py", "file", "--rounds", "5"],
    "java_starts": ["java_starts.py", "start", "many", "--rounds", "5", "--connectors", "50"],
    "java_bridge": ["java_bridge.py", "--rounds", "5", "--records", "1000000"],
    "read_ahead": ["read_ahead.py", "--rounds", "7"],
    "idle_tasks": ["idle_tasks.py", "--tasks", "2000", "--seconds", "10", "--rounds", "5"],
    "offsets_topic": ["offsets_topic.py", "--tasks", "1", "4", "16", "64", "--rounds", "5"],
    # Smaller sizes do not show what is quadratic. These take about two and a half minutes on an idle machine.
    "growth": [
        "growth.py",
        *("--connectors", "100", "400"),
        *("--tasks", "100", "500"),
        *("--files", "1000", "4000"),
    ],
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all if none is named; return how many failed."""
    unknown = set(names) - BENCHMARKS.keys()
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(sorted(unknown))}: take some of {', '.join(BENCHMARKS)}")
    failed = []
    for name in names or BENCHMARKS:
        script, *arguments = BENCHMARKS[name]
        print(f"\n== {name}: python bench/{' '.join([script, *arguments])}", flush=True)
        if subprocess.run([sys.executable, str(FOLDER / script), *arguments], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
