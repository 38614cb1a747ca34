"""What agents keep."""
