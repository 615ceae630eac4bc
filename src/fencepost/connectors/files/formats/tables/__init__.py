"""Files with a schema of their own, in groups of rows: Parquet, ORC and Avro."""
