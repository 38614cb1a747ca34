"""Wiring of the apps: settings, URLs and the ASGI application."""
