"""Loads that change nothing: plans, shadows, and what another contract would do."""
