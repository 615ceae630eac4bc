"""Real servers for first steps and for tests: a Kafka broker (the JVM, its jars, one or more nodes), and PostgreSQL."""
