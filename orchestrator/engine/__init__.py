"""The durable engine: what a workflow class may do, and how it goes on after a crash."""
