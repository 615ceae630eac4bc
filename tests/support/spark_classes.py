"""The archive of classes with which the JVMs of Spark start for half of the CPU.

`make test` writes it beside the first tests, unless it is there: `python -m tests.support.spark_classes`. A JVM that
finds none, or one of another JVM or other jars, loads its classes from the jars.
https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.embedded.errors import JavaNotFoundError
from fencepost.embedded.java import find_java

if TYPE_CHECKING:
    import pyarrow as pa

# These JVMs live for seconds: the optimizing compiler and the collector for large heaps cost twice what they gain.
_SHORT_LIVED = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# Without these options the JVM warns of an archive that it cannot use.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def java_options() -> str:
    """The options of Spark's JVMs in tests, for SPARK_SUBMIT_OPTS."""
    archives = os.pathsep.join(str(archive) for archive in _archives())
    # Spark splits the options at spaces.
    if not archives or " " in archives:
        return _SHORT_LIVED
    return f"{_SHORT_LIVED} {_QUIET} -XX:SharedArchiveFile={archives}"


def _archives() -> list[Path]:
    """The JVM's own archive, which is used alone if there is no other, and Spark's; empty without Java."""
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        return []
    try:
        java = find_java()
    except JavaNotFoundError:
        return []
    jars = Path(pyspark.origin).parent / "jars"
    digest = hashlib.sha256(f"{java.home} {java.version} {jars} {jars.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    # The archive is in the virtual environment, to whose jars it belongs.
    return [java.home / "lib" / "server" / "classes.jsa", Path(sys.prefix) / f"spark-classes-{digest}.jsa"]


def _write(archive: Path) -> None:
    """Run a typical query with Python workers; when the JVM ends, it writes the loaded classes."""
    from fencepost.engine.engine import SparkEngine  # noqa: PLC0415 - takes a second, and this process alone needs it

    staged = archive.with_suffix(f".{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_SHORT_LIVED} {_QUIET} -XX:ArchiveClassesAtExit={staged}"
    engine = SparkEngine({"spark.sql.shuffle.partitions": "2"})
    try:
        frame = engine.session().range(1_000, numPartitions=2).selectExpr("string(id) AS value", "id % 7 AS key")
        frame.repartition(2, "key").mapInArrow(_pass_on, "value STRING, key BIGINT").toArrow()
    finally:
        engine.stop()
    staged.replace(archive)


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def main() -> None:
    """Write the archive, unless it exists or another process is writing it."""
    archives = _archives()
    if not archives:
        return
    archive = archives[-1]
    with archive.with_suffix(".lock").open("w") as lock, suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not archive.exists():
            _write(archive)


if __name__ == "__main__":
    main()
