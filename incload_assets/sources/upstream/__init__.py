"""Other tables of the lake, from which a table is derived."""
