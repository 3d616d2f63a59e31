"""The sample shop's PostgreSQL and Kafka."""
