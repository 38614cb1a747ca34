"""Approvals: questions to people, answered exactly once, and the calls that wait for them."""

# Registers how an answer acts on a tool call.
from sessions_app.approvals import tool_calls as tool_calls
