"""The readiness of a table for production."""
