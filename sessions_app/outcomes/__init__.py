"""Outcomes: what a session is to reach, who judges it, and how often it is sent back."""
