"""The Spark server and the sessions on it."""
