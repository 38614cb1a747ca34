"""REST doors of memory."""
