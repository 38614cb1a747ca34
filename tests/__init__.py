"""Tests mirror the apps; each name is the sentence that it proves."""
