"""The load of a window from end to end: detect, ingest, merge, reconcile."""
