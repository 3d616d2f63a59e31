"""Ingestion: a window is read, validated and put into the change log."""
