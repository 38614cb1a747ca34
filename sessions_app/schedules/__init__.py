"""Schedules: wake a session at a later time, once or repeatedly."""
