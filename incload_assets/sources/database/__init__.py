"""PostgreSQL: sources that query a table by number or by time, and replication slots."""
