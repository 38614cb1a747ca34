"""The local sandbox: bubblewrap on this machine."""
