"""Pages of accounts, workspaces, members, keys, billing, the vault and notifications."""
