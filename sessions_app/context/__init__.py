"""What the model is given for its next answer: read from the newest snapshot on, by part, within the window."""
