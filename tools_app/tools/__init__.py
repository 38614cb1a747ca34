"""The tools that come with Switchyard, a noun per module."""
