"""Wiring: settings, addresses, errors. No behaviour of the product lives here."""
