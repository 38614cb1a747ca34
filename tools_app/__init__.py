"""What agents may do: tools, policies, sandboxes."""
