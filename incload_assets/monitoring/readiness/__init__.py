"""Whether a table is ready for production."""
