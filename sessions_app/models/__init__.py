"""The tables of sessions, one noun per module."""

from sessions_app.models.approval import Approval
from sessions_app.models.event import Draft, SessionEvent, ToolOutput
from sessions_app.models.execution import ToolExecution
from sessions_app.models.run import Run
from sessions_app.models.schedule import Firing, Schedule
from sessions_app.models.session import ResourceAttachment, SavedView, Session
from sessions_app.models.snapshot import ContextSnapshot
from sessions_app.models.spawn import SubagentSpawn

__all__ = [
    "Approval",
    "ContextSnapshot",
    "Draft",
    "Firing",
    "ResourceAttachment",
    "Run",
    "SavedView",
    "Schedule",
    "Session",
    "SessionEvent",
    "SubagentSpawn",
    "ToolExecution",
    "ToolOutput",
]
