"""Where changes come from: a room for each kind of source, and beside them what the kinds share."""
