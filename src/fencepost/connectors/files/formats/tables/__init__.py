"""Files that contain their own schema, in groups of rows: Parquet, ORC and Avro."""
