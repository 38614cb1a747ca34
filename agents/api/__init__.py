"""The REST doors of agents."""
