"""Billing: credits, budgets, reservations and usage."""
