"""Tables of PostgreSQL, read by number or by time, and replication slots."""
