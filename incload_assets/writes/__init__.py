"""Write strategies, and how their plans are made and committed."""
