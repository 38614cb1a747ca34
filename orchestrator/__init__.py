"""Durable workflows, and the processes that run everything."""
