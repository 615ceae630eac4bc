"""Converters with a schema registry: the client, and what is common to Avro, Protobuf and JSON Schema."""
