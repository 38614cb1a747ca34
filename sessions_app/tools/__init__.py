"""The tools that need sessions: working together, and waking up later."""
