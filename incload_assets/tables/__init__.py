"""What is loaded: one module for each table, one folder for each domain. All modules here are found by themselves."""
