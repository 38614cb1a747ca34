"""Notifications: the inbox, mail and outgoing webhooks."""
