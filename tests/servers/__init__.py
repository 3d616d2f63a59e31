"""Real servers for the tests, started when a test first asks for one."""
