"""The erasure of a person from every table, and the search that proves it."""
