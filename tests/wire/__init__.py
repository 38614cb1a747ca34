"""Local servers that speak the vendors' wire formats, for tests and measurements."""
