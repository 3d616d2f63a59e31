"""Sources: one package for each kind, beside the modules that they share."""
