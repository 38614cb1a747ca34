"""Tests of canvas runs."""
