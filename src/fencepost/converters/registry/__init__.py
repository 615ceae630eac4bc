"""Converters with a schema registry: the client, and the common parts of Avro, Protobuf and JSON Schema."""
