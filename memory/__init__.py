"""The memory of agents: documents, their index, search and recall."""
