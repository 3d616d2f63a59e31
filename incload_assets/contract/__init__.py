"""Contracts: pandera models compiled to Spark column expressions."""
