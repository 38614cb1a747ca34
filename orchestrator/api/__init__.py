"""The REST doors of workflows."""
