"""The network of a sandbox: its namespace and the egress proxy."""
