"""Runs of canvases."""
