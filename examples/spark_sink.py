"""Writes a stream of rows to Kafka exactly once: `python examples/spark_sink.py 127.0.0.1:9092`."""

import sys

from pyspark.sql import SparkSession

from fencepost.spark import exactly_once

servers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
# A stage that Spark runs again would write its rows twice.
spark = SparkSession.builder.config("spark.stage.maxConsecutiveAttempts", "1").getOrCreate()

df = spark.readStream.format("rate").option("rowsPerSecond", 100).load()

query = (
    df.selectExpr("value AS id", "timestamp AS at")
    .selectExpr("CAST(id AS STRING) AS key", "to_json(struct(*)) AS value")
    .writeStream.foreachBatch(exactly_once(topic="orders", bootstrap_servers=servers))
    .option("checkpointLocation", "orders-checkpoint")
    .start()
)
query.awaitTermination()
