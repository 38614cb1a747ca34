"""Measurements: one file per question, peers beside us where there are any."""
