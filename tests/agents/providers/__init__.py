"""Tests of model providers, each through its real client."""
