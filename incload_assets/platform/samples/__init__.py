"""The PostgreSQL and Kafka servers of the sample shop."""
