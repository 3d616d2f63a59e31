"""The history of loads, of what people did by hand, of contracts and of single rows."""
