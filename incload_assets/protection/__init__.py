"""Protected values and forgotten persons: masks, tokens, keys of persons, and the list of erased persons."""
