"""Accounts, workspaces, permissions, billing, the vault and notifications."""
