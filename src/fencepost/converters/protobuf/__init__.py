"""Connect's data in Protobuf: schemas, and the binary encoding of whole columns."""
