"""Tool policies: rules, layers, evaluation and storage."""
