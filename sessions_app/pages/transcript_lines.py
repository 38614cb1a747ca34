"""The lines of a transcript: what each kind shows.

Each kind has a template, `pages/chat/line_<kind>.html`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any, ClassVar
from uuid import UUID

import orjson
from django.utils.html import format_html
from django.utils.safestring import SafeString
from pydantic import ValidationError

from core.text import reveal
from sessions_app.approvals.approvals import SCOPE_LABELS
from sessions_app.branches import Variant
from sessions_app.pages.labels import approval_reason, dollars, duration, thousands
from sessions_app.tool_labels import ToolLabel, main_argument, tool_label
from tools_app.questions import Question
from tools_app.registry import registry

#: Statuses in which a new message has to wait. The page then lists it in the queue.
BUSY = frozenset({"running", "rescheduling", "requires_action"})
#: Rows of the field with a call's arguments.
MAX_ARGUMENT_ROWS = 12
#: The lamp and the label of each state of a tool call.
LAMPS = {
    "pending": ("", "Waiting"),
    "awaiting_approval": ("is-waiting", "Needs approval"),
    "running": ("is-running", "Running"),
    "completed": ("is-done", "Done"),
    "error": ("is-failed", "Failed"),
    "denied": ("is-failed", "Denied"),
    "cancelled": ("", "Cancelled"),
    "unknown": ("is-unknown", "Outcome unknown"),
}
CHILD_LAMPS = {
    "running": ("is-running", "At work"),
    "completed": ("is-done", "Done"),
    "failed": ("is-failed", "Failed"),
    "cancelled": ("", "Stopped"),
}
#: What became of a person's message. Only the browser knows a message that is being sent.
RECEIPTS = {
    "sending": "Sending…",
    "sent": "Sent",
    "read": "Read",
    "steered": "Added to the running answer",
    "answered": "Answered",
    "stopped": "Stopped",
    "unanswered": "Not answered",
}
#: Where a person can resolve an error.
HELP = {
    "budget_reached": ("Raise the budget", "/settings/budgets/"),
    "out_of_credits": ("Add credits", "/settings/budgets/"),
    "provider_not_configured": ("Open settings", "/settings/providers/"),
    "provider_unauthorized": ("Open settings", "/settings/providers/"),
}
#: Errors that another model may not make. After choosing one, the same run may succeed.
OF_THE_MODEL = frozenset({"provider_rejected", "provider_unavailable", "answer_too_large"})


@dataclass(kw_only=True)
class TranscriptLine:
    """A line of the transcript. Every field except `place` is part of how it looks."""

    kind: ClassVar[str]
    key: str
    #: The line's event. None for a line that is not part of the session's log.
    seq: int | None
    at: datetime
    #: The seq that the line is sorted by, if not its own.
    place: int = field(default=0, repr=False)

    @property
    def template(self) -> str:
        return f"pages/chat/line_{self.kind}.html"

    @property
    def order(self) -> tuple[int, int]:
        return self.place or self.seq or 0, self.seq or 0

    @property
    def version(self) -> str:
        """Return a digest of everything that the line shows."""
        shown = repr(self).encode(errors="surrogatepass")
        return blake2b(shown, digest_size=6).hexdigest()

    @property
    def attributes(self) -> SafeString:
        """Return the attributes by which the chat's script recognises the line."""
        seq = "" if self.seq is None else format_html(' data-seq="{}"', self.seq)
        return format_html('data-key="{}" data-version="{}"{}', self.key, self.version, seq)


@dataclass(frozen=True, kw_only=True)
class File:
    """A file of the workspace that is attached to a message."""

    name: str
    path: str
    url: str
    size: int | None = None
    media_type: str = ""
    #: The address of a small picture of it, if it is an image.
    picture: str = ""
    #: Pages of a PDF.
    pages: int | None = None


@dataclass(kw_only=True)
class PersonLine(TranscriptLine):
    kind = "person"
    text: str
    author: str = ""
    #: One of the keys of `RECEIPTS`.
    receipt: str = "sent"
    #: The message was answered together with others.
    merged: bool = False
    edited: bool = False
    run_id: UUID | None = None
    files: list[File] = field(default_factory=list)
    #: Where a fork that continues after this line ends.
    fork_at: int = 0
    #: Which of the chat's branches begins with this message, if there are several.
    variant: Variant | None = None

    @property
    def is_outgoing(self) -> bool:
        return self.receipt == "sending"

    @property
    def receipt_text(self) -> str:
        text = RECEIPTS[self.receipt]
        return f"{text} together with others" if self.merged else text

    @property
    def attachments(self) -> str:
        """Return the files as the payload of a message names them, for a message in a fork."""
        names = ("name", "path", "media_type", "size")
        files = [{name: getattr(file, name) for name in names} for file in self.files]
        return orjson.dumps(files).decode()


@dataclass(kw_only=True)
class AgentLine(TranscriptLine):
    kind = "agent"
    text: str
    model: str = ""
    #: The model is still writing it.
    is_draft: bool = False
    fork_at: int = 0

    @property
    def version(self) -> str:
        # No stored line equals a draft, so the server always sends the line that follows it.
        return "" if self.is_draft else super().version


@dataclass(kw_only=True)
class ThinkingLine(TranscriptLine):
    """What the model thought before it answered or called tools, folded."""

    kind = "thinking"
    text: str
    is_draft: bool = False

    @property
    def version(self) -> str:
        return "" if self.is_draft else super().version


@dataclass(kw_only=True)
class Child:
    """A sub-agent's session that a call started."""

    session_id: UUID
    title: str
    task: str
    status: str = "running"
    result: str = ""
    agent: str = ""
    tokens: int = 0
    cost: Decimal = Decimal(0)
    #: Calls of the sub-agent that need approval.
    pending_approvals: int = 0

    @property
    def lamp(self) -> tuple[str, str]:
        return CHILD_LAMPS.get(self.status, CHILD_LAMPS["cancelled"])

    @property
    def facts(self) -> str:
        if not self.tokens:
            return ""
        cost = dollars(self.cost) if self.cost else ""
        return " · ".join(filter(None, (f"{thousands(self.tokens)} tokens", cost)))


def question_of(name: str, input: dict[str, Any]) -> Question | None:
    """Return the form of a call that asks a person, or None for any other call."""
    if name not in registry or not registry[name].asks:
        return None
    try:
        return Question.model_validate(input)
    except ValidationError:  # an imported event
        return None


@dataclass(kw_only=True)
class CallLine(TranscriptLine):
    """A tool call, as the log describes it so far."""

    kind = "call"
    tool_use_id: str
    name: str
    input: dict[str, Any] = field(default_factory=dict)
    decision: str = "allow"
    decided_by: str = ""
    #: The answer of a person to the approval.
    answered: str = ""
    answered_by: str = ""
    answered_at: datetime | None = None
    scope: str = "once"
    note: str = ""
    #: A person ran the call again, or verified whether it took effect.
    again: bool = False
    verified_by: str = ""
    #: The state that the result names. Empty until the call has one.
    result: str = ""
    #: One of the keys of `LAMPS`, which `resolve` determines.
    state: str = "pending"
    #: The result as text, cut to what a page shows.
    output: str = ""
    #: The images and files of the result.
    files: list[File] = field(default_factory=list)
    #: The event with the whole result, if `output` is cut.
    clipped_at: int | None = None
    error: str = ""
    duration_ms: int | None = None
    child: Child | None = None

    def resolve(self, status: str) -> None:
        """Determine the state. The session's status decides that of a call without a result."""
        if self.child:
            return  # The card shows the state of the sub-agent instead.
        if self.result:
            self.state = self.result
        elif self.decision == "deny" or self.answered == "deny":
            self.state = "denied"
        elif status not in BUSY:
            self.state = "unknown"
        elif self.decision == "ask" and not self.answered:
            self.state = "awaiting_approval"
        else:
            self.state = "running" if status == "running" else "pending"

    @property
    def lamp(self) -> str:
        return LAMPS.get(self.state, LAMPS["unknown"])[0]

    @property
    def state_label(self) -> str:
        return LAMPS.get(self.state, LAMPS["unknown"])[1]

    @property
    def label(self) -> ToolLabel:
        return tool_label(self.name)

    @property
    def subject(self) -> str:
        return main_argument(self.name, self.input)

    @property
    def ending(self) -> str:
        """Return the state if it is unusual, and the duration."""
        is_usual = self.state in {"completed", "running"} or (
            self.state == "denied" and self.is_answered
        )
        parts = ["" if is_usual else self._unusual_state, duration(self.duration_ms)]
        return " · ".join(filter(None, parts))

    @property
    def _unusual_state(self) -> str:
        """Return the state, and of a call that no person denied also the reason."""
        if self.state != "denied":
            return self.state_label
        if self.decision == "deny" and self.decided_by:
            return f"Denied by {self.decided_by}"
        return "Denied: not answered in time" if self.decision == "ask" else self.state_label

    @property
    def is_answered(self) -> bool:
        return bool(self.answered or self.verified_by)

    @property
    def rule(self) -> str:
        """Return who or which rule allowed or denied the call."""
        if self.verified_by:
            return f"Checked by {self.verified_by}"
        if self.answered:
            return " ".join(
                filter(None, (self._verb, self.answered_by and f"by {self.answered_by}"))
            )
        return f"Decided by {self.decided_by}" if self.decided_by else ""

    @property
    def _verb(self) -> str:
        if self.again:
            return "Run again"
        if self.answered == "answer":
            return "Answered"
        return (
            f"Allowed {SCOPE_LABELS.get(self.scope, 'once')}"
            if self.answered == "allow"
            else "Denied"
        )

    @property
    def can_be_settled(self) -> bool:
        """Return whether a person can say how the call ended."""
        return self.state == "unknown" and bool(self.result)

    @property
    def reason(self) -> str:
        """Return why the call needs approval."""
        return approval_reason(self.decided_by)

    @property
    def form(self) -> Question | None:
        return question_of(self.name, self.input)

    @property
    def arguments(self) -> str:
        return as_json(self.input)

    @property
    def argument_rows(self) -> int:
        return _rows(self.arguments)


@dataclass(kw_only=True)
class QuestionLine(TranscriptLine):
    """A sub-agent's call that needs approval, which can be answered in this chat."""

    kind = "question"
    approval_id: UUID
    session_id: UUID
    session_title: str
    agent: str
    name: str
    input: dict[str, Any]
    decided_by: str

    @property
    def ident(self) -> str:
        return str(self.approval_id)

    @property
    def form(self) -> Question | None:
        return question_of(self.name, self.input)

    @property
    def label(self) -> ToolLabel:
        return tool_label(self.name)

    @property
    def reason(self) -> str:
        return approval_reason(self.decided_by)

    @property
    def arguments(self) -> str:
        return as_json(self.input)

    @property
    def argument_rows(self) -> int:
        return _rows(self.arguments)


@dataclass(kw_only=True)
class ErrorLine(TranscriptLine):
    kind = "error"
    message: str
    code: str = ""
    run_id: UUID | None = None
    #: Whether to offer a retry. It is no longer offered after a newer run started.
    can_retry: bool = False

    @property
    def help(self) -> tuple[str, str] | None:
        """Return the label and the address of a page where a person can resolve the error."""
        return HELP.get(self.code)

    @property
    def is_of_the_model(self) -> bool:
        """Return whether to offer another model, for as long as the run can be retried."""
        return self.can_retry and self.code in OF_THE_MODEL


@dataclass(kw_only=True)
class CutLine(TranscriptLine):
    """Says that the answer before it is not whole."""

    kind = "cut"
    text: str
    #: The answer's event. It makes a request to continue that is sent twice count once.
    event_id: UUID
    #: Whether to offer to continue. It is no longer offered after a newer run started.
    can_continue: bool = False


@dataclass(kw_only=True)
class NoteLine(TranscriptLine):
    kind = "note"
    text: str


@dataclass(kw_only=True)
class CompactionLine(TranscriptLine):
    kind = "compaction"
    text: str
    snapshot_id: str = ""
    is_undone: bool = False
    #: It is the newest compaction in effect, which can be undone.
    is_active: bool = False


@dataclass(kw_only=True)
class StepsLine(TranscriptLine):
    """Finished calls in a row, folded into one line."""

    kind = "steps"
    calls: list[CallLine]

    @property
    def summary(self) -> str:
        spent = sum(call.duration_ms or 0 for call in self.calls)
        return " · ".join(filter(None, (f"{len(self.calls)} steps", duration(spent or None))))

    @property
    def failed(self) -> int:
        return sum(call.state != "completed" for call in self.calls)


def as_json(value: object) -> str:
    """Return a value as indented JSON, with escapes in place of invisible characters."""
    return reveal(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode())


def _rows(text: str) -> int:
    return min(MAX_ARGUMENT_ROWS, text.count("\n") + 1)
