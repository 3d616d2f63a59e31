"""Test cases of tables: rows in, rows expected, evaluated in plain Python or by real loads."""
