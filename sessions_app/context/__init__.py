"""The context: what a model is given for its next answer, read from the newest snapshot on."""
