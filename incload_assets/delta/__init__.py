"""Helpers for Spark and Delta that do not depend on how this project declares tables."""
