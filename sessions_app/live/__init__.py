"""Live streams: the log grows, the publisher notifies, the hub reads new rows, viewers get frames."""
