"""The tool that asks a person a question. Its call waits, like one that needs an approval."""

from __future__ import annotations

from tools_app.exceptions import ToolFailed
from tools_app.questions import Question
from tools_app.registry import Category, ToolContext, tool


@tool(category=Category.MESSAGING, idempotent=True, seconds=10, title="Question", asks=True)
def ask_user(arguments: Question, context: ToolContext) -> None:
    """Ask a person, with a small form, what only a person can tell or decide.

    The answer is an object with a value per field: several gives a list, date a day like 2026-01-31,
    file a path in the session's files. Ask all you need at once, and only what you cannot find out.
    """
    raise ToolFailed("Only the agent of a session can ask a person.")
