"""What `manage.py up` runs: start everything, keep it running, stop it, leave nothing behind."""
