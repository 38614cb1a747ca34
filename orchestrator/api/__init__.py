"""The REST API of workflows, tasks, triggers, terminals and health."""
