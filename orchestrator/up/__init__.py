"""The parts of `manage.py up`: start everything, keep it running, stop it, leave nothing behind.

`stack` is the whole; a `part` is one thing that runs; a `keeper` starts a part again when it dies;
`prepare` brings the database and the files up to date; `watch` finds a part that lives but hangs.
"""
