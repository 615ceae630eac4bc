"""Brings rows and a table into Kafka exactly once: `python examples/script.py 127.0.0.1:9092`. Run it twice."""

import sys

from pyarrow import csv

import fencepost

servers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"


def cities(config, cursor):
    """Yields the whole file as one frame, once."""
    if cursor is None:
        table = csv.read_csv(config["file"])
        yield table, table.num_rows


result = fencepost.run(cities, topic="cities", bootstrap_servers=servers, file="examples/cities.csv")
print(f"Records: {result.records}, transactions: {result.transactions}, cursors: {result.cursors}")
