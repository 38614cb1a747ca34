"""One module per way of running: local, production, test."""
