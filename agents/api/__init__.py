"""REST views of agents, environments and model providers."""
