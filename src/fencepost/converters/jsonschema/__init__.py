"""JSON with a schema in a registry, as Confluent's JsonSchemaConverter writes it."""
