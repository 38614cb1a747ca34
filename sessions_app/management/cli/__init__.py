"""The command line of `manage.py agent`: its parser and its commands."""
