"""JdbcSource: reads tables by query, without losing a row."""
