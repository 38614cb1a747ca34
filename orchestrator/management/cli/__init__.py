"""The commands of `manage.py workflows`."""
