"""Change events of Debezium's PostgreSQL connector as a source."""
