"""Pages of workflows."""
