"""df.write.format("fencepost") in a separate program, with Spark's default settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fencepost.embedded.java import find_java
from fencepost.engine.spark.session import make_java_home
from tests.support.checker import read_topic
from tests.support.topics import Topics

_PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
rows = spark.range(0, 100, numPartitions=3).selectExpr("CAST(id AS STRING) AS value")
options = {"kafka.bootstrap.servers": sys.argv[1], "topic": sys.argv[2]}
rows.write.format("fencepost").options(**options).mode("append").save()
"""


def test_spark_finds_the_format_without_registration(bootstrap_servers: str, topics: Topics, tmp_path: Path):
    topic = topics.create(partitions=2)
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    # Python is called by name, as in an activated environment: Spark cannot start it by a path with a space.
    python = Path(sys.executable)
    own = {"PYSPARK_PYTHON": python.name, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    own |= {"JAVA_HOME": make_java_home(find_java(), tmp_path / "java"), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(program), bootstrap_servers, topic]
    ended = subprocess.run(
        command, env=os.environ | own, cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = sorted(int(record.value or b"") for record in read_topic(bootstrap_servers, topic))
    assert found == list(range(100))
