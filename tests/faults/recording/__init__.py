"""An app for fault tests: one tool that leaves a trace which cannot be taken back."""
