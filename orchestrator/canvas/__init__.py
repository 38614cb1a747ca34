"""Runs of canvases: what is published of a graph, walked node by node as a durable workflow."""
