"""The tables of sessions, one noun per module."""

from sessions_app.models.draft import Draft
from sessions_app.models.event import SessionEvent
from sessions_app.models.execution import ToolExecution
from sessions_app.models.resource import ResourceAttachment
from sessions_app.models.run import Run
from sessions_app.models.session import Session

__all__ = ["Draft", "ResourceAttachment", "Run", "Session", "SessionEvent", "ToolExecution"]
