"""Commands of the orchestrator."""
