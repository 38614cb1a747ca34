"""Tests mirror the apps; the name of each test is the sentence that it proves."""
