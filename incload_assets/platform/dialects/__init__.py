"""Dialects: what differs between the databases that sources query, a module for each."""
