"""Ingestion: reads a window from its source, validates it, and commits it to the change log."""
