"""The sample shop's tables."""
