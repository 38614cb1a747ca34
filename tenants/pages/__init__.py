"""Pages for people: accounts, workspaces, members, keys."""
