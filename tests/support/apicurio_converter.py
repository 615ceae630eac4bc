"""Apicurio's AvroConverter in Java, which reads the records of our converters."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fencepost.embedded.jars import KAFKA_VERSION, LOGGING_BACKEND, REGISTRY_VERSION, JarSet, class_path
from fencepost.embedded.java import find_java
from tests.support.java_plugins import compile_java

_JARS: Final = JarSet(
    f"connect-apicurio-{KAFKA_VERSION}",
    f"Kafka Connect {KAFKA_VERSION} with Apicurio's converters",
    (
        ("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
        ("org.apache.kafka", "connect-file", KAFKA_VERSION),
        ("io.apicurio", "apicurio-registry-utils-converter", REGISTRY_VERSION),
        LOGGING_BACKEND,
    ),
)
_SOURCE: Final = Path(__file__).parent / "java" / "ConverterReads.java"


def read_in_java(registry: str, records: Sequence[tuple[str, bytes]], folder: Path) -> list[dict[str, Any]]:
    """Read records of topics, with a registry at its own API's address; return `schema` and `payload` of each."""
    java = find_java()
    classes = folder / "classes"
    compile_java([_SOURCE], _JARS, classes)
    jars = os.pathsep.join([str(classes), *(str(jar) for jar in class_path(java, _JARS))])
    lines = "".join(f"{topic}\t{base64.b64encode(data).decode()}\n" for topic, data in records)
    command = [str(java.executable), "-Xmx256m", "-cp", jars, "ConverterReads", registry]
    done = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, check=True)
    told = [line for line in done.stdout.decode().split("\n")[:-1] if line.startswith(("{", "!"))]
    assert len(told) == len(records), done.stdout
    refused = [line for line in told if line.startswith("!")]
    assert not refused, refused[0]
    return [json.loads(line) for line in told]
