"""Tests of the pages of tenants, without a browser."""
