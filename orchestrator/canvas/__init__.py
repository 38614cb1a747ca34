"""Runs of canvases: the published graph of an agent, walked node by node as a durable workflow."""
