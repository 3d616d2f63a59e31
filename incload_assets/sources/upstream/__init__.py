"""Upstream tables of the lake as the source of derived tables."""
