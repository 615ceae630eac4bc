"""JdbcSource: reads database tables by queries, without losing rows."""
