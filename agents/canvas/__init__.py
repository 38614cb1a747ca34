"""The canvas of an agent: its graph, revisions, validation and expressions."""
