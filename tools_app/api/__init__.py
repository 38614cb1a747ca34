"""REST doors of tools."""
