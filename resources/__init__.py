"""The resources that the environment configures: servers, stores, settings. Independent of any table."""
