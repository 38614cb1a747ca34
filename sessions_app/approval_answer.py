"""An answer to an approval, what came of it, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from sessions_app.models import Approval

#: How an answer is told of, by what it covers.
EXTENT = {"once": "once", "session": "for this session", "always": "always"}


@dataclass(frozen=True, kw_only=True)
class Answer:
    decision: Literal["allow", "deny"]
    scope: str = Approval.Scope.ONCE.value
    note: str = ""
    #: Other arguments than those that were asked for.
    input: dict[str, Any] | None = None

    @property
    def allows(self) -> bool:
        return self.decision == "allow"


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """An approval that was answered now, the event that says so, and the run that goes on."""

    approval: Approval
    seq: int | None
    run_id: UUID | None


def said_of(approval: Approval) -> str:
    """Who answered what: the beginning of a sentence."""
    who = approval.resolved_name or "Somebody"
    match approval.status:
        case Approval.Status.ALLOWED:
            return f"{who} allowed this {EXTENT.get(approval.scope, 'once')}"
        case Approval.Status.DENIED:
            return f"{who} denied this"
        case Approval.Status.EXPIRED:
            return "Nobody answered, so this expired"
        case Approval.Status.CANCELLED:
            return "The session was stopped, so this was cancelled"
        case _:
            return "This waits for an answer"
