"""The Spark server and its sessions."""
