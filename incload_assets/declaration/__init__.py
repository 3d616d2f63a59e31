"""The declaration of a table: its parts, their types and their rules."""
