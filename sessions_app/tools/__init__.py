"""Tools that need sessions: peer sessions, sub-agents, schedules and the builder."""
