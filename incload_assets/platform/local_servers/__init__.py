"""Servers on this machine without an owner: the first process that needs one starts it, and it ends by itself."""
