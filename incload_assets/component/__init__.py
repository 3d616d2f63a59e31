"""Tables declared in YAML: the Dagster component ``incload_assets.IncrementalTable``."""
