"""The OpenAI door, below /v1/: clients of OpenAI's API talk to agents, and an agent is a model."""
