"""The TaskAgent: runs one command or one prompt as a durable workflow, in a sandbox of its own."""
