"""Sandboxes, in which the commands of sessions run: local ones and containers."""
