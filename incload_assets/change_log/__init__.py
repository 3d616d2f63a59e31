"""The log of changes: what is written to it and read from it."""
