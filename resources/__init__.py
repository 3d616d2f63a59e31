"""What the environment names: servers, stores, settings; nothing here knows a table."""
