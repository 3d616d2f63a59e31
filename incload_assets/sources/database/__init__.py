"""Databases: sources that query a table by number or by time, and PostgreSQL's replication slots."""
