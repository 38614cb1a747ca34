"""The parts of `manage.py workflows`: what can be typed, and what it does."""
