"""The pages of workflows, triggers and terminals."""
