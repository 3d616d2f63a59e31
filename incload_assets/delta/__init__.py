"""Spark and Delta by themselves: nothing here knows a table of this project."""
