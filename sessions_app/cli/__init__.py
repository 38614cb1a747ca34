"""The parts of `manage.py agent`: what can be typed, and what it does."""
