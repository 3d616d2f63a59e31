"""The trace of one row: every change of it, and what became of each."""
