"""Change events of Debezium's connector for PostgreSQL."""
