"""All communication with a Kafka cluster."""
