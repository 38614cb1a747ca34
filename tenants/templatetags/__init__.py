"""Tags that templates of every app share."""
