"""The tables of sessions."""

from sessions_app.models.event import (
    ContextSnapshot,
    Draft,
    MessageVector,
    SessionEvent,
    ToolOutput,
)
from sessions_app.models.run import Approval, Run, ToolExecution, ToolUseRollup
from sessions_app.models.schedule import Firing, Schedule
from sessions_app.models.session import (
    Feedback,
    ResourceAttachment,
    SavedView,
    Session,
    SubagentSpawn,
)

__all__ = [
    "Approval",
    "ContextSnapshot",
    "Draft",
    "Feedback",
    "Firing",
    "MessageVector",
    "ResourceAttachment",
    "Run",
    "SavedView",
    "Schedule",
    "Session",
    "SessionEvent",
    "SubagentSpawn",
    "ToolExecution",
    "ToolOutput",
    "ToolUseRollup",
]
