"""Server-rendered pages of sessions, the chat, approvals and schedules."""
