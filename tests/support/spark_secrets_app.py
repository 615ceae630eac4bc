"""Writes with secrets in the options, in each way, and keeps what Spark shows: `... spark_secrets_app FOLDER`.

FOLDER/options.json has the options of each way. FOLDER/input has a text file to write. Spark's event log is written to
FOLDER/events, and what its UI shows to FOLDER/pages. The output has Spark's log.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from fencepost.engine.engine import SparkEngine
from fencepost.spark import exactly_once, write_kafka
from tests.support.spark_queries import FileQuery, users_session

_PAGES = ["jobs/", "environment/", "SQL/", "StreamingQuery/", *(f"SQL/execution/?id={number}" for number in range(8))]
_ANSWERS = ["sql?details=true&planDescription=true", "jobs", "stages?details=true", "environment"]


def main() -> None:
    """Write in each of the ways."""
    folder = Path(sys.argv[1])
    options = json.loads((folder / "options.json").read_text())
    (folder / "events").mkdir()
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        # Plans show all options that Spark shows anywhere.
        "spark.sql.ui.explainMode": "extended",
    }
    with users_session(SparkEngine(settings)) as session:
        session.sparkContext.setLogLevel("INFO")
        rows = session.read.text(str(folder / "input"))
        write_kafka(rows, **options["write_kafka"])
        by_format(rows, options["format"])
        FileQuery(session, folder, exactly_once(**options["exactly_once"]), checkpoint_name="a").run()
        FileQuery(session, folder, options["format query"], checkpoint_name="b").run()
        try:
            by_format(rows, options["format"] | {"kafka.ssl.truststore.certificates": "none"})
        except Exception as error:  # noqa: BLE001 - whatever it is, its text counts
            print(error)  # noqa: T201 - a user sees it
        keep_pages(session, folder / "pages")


def by_format(rows: DataFrame, options: dict[str, str]) -> None:
    """Write a DataFrame."""
    rows.write.format("fencepost").options(**options).mode("append").save()


def keep_pages(session: SparkSession, file: Path) -> None:
    """Save the pages of Spark's UI and its REST API."""
    context = session.sparkContext
    answers = [f"api/v1/applications/{context.applicationId}/{name}" for name in _ANSWERS]
    texts = []
    for page in [*answers, *_PAGES]:
        with urllib.request.urlopen(f"{context.uiWebUrl}/{page}") as answer:  # noqa: S310 - Spark's own UI
            texts.append(answer.read().decode())
    file.write_text("\n".join(texts))


if __name__ == "__main__":
    main()
