"""Connect's data in Avro: schemas, and the binary encoding of whole columns."""
