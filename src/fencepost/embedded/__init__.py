"""A real Kafka broker for first steps and for tests: the JVM, its jars, and one or more nodes."""
