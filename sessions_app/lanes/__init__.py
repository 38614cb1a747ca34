"""Lanes: one run at a time per session, with leases, workers and recovery."""
