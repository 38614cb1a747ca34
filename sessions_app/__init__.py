"""Sessions, their log, lanes and harness."""
