"""Servers on this machine that nobody owns: the first who needs one starts it, and it ends by itself."""
