"""The tables: one module for each, one folder for each domain. All modules here are found by themselves."""
