"""The change log of a table: its layout, commits, and reads."""
