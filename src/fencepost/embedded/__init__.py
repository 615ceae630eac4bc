"""A real Kafka broker, for newcomers and for tests: the JVM, its jars, and one to several nodes of it."""
