"""Model providers, each through its real client."""
