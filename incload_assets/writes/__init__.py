"""Write strategies: their declarations, merge plans and commits."""
