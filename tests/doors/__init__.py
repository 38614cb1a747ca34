"""Real clients of other products, unchanged, against a running stack."""
