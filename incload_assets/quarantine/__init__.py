"""Quarantined rows: what a person decides about them, and the runs that load them again."""
