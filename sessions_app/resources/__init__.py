"""Resources of a session: attached mounts, repositories, remote stores and uploaded files."""
