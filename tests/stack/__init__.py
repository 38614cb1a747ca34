"""Tests that start the real processes with `manage.py up`."""
