"""The ground that everything stands on: settings, errors, the lake, Spark, databases, Kafka, secrets, local servers."""
