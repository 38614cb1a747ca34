"""Tasks: one command or one prompt, run as a durable workflow in its own sandbox."""
