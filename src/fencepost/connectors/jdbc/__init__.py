"""JdbcSource: tables by query, without losing a row."""
