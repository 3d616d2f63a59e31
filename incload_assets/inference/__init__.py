"""Declarations inferred from data: columns, key, order and windows of a table, each with its evidence."""
