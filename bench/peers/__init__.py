"""Other systems, measured with the same questions. They run in an environment of their own."""
