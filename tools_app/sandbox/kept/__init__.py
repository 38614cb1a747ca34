"""Commands that outlive whoever asked for them: each is held by a process of its own."""
