"""Real servers for first steps and for tests: a Kafka broker (its JVM, jars and nodes), databases, and a registry."""
