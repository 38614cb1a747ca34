"""Pages of agents, the builder, environments and model providers."""
