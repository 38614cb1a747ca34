"""What one line of a conversation is, as the server writes it and the island redraws it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

import orjson

from sessions_app.approval_answer import EXTENT
from sessions_app.pages.words import duration, why
from sessions_app.tool_words import Words, subject_of, words_of
from tools_app.grants import covers
from tools_app.registry import registry

#: Which lamp stands for which state of a call, and the word beside it.
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
#: Faults that a person can end elsewhere; `errorline.ts` says the same.
HELP = {
    "budget_reached": ("Raise the budget", "/settings/budgets/"),
    "out_of_credits": ("Add credits", "/settings/budgets/"),
    "provider_not_configured": ("Open settings", "/settings/providers/"),
    "provider_unauthorized": ("Open settings", "/settings/providers/"),
}
#: Characters of a result that a page shows.
SHOWN = 20_000


@dataclass(kw_only=True)
class Line:
    """Something at its place: by the seq where it belongs, then by its own."""

    kind: ClassVar[str]
    seq: int
    at: datetime
    place: int = 0

    @property
    def template(self) -> str:
        return f"pages/chat/line_{self.kind}.html"

    @property
    def order(self) -> tuple[int, int]:
        return self.place or self.seq, self.seq


@dataclass(frozen=True, kw_only=True)
class File:
    """A file of the workspace that came with a message."""

    name: str
    url: str


@dataclass(kw_only=True)
class FromPerson(Line):
    kind = "person"
    text: str
    author: str
    #: It joined an answer that was being written.
    steered: bool = False
    files: list[File] = field(default_factory=list)


@dataclass(kw_only=True)
class FromAgent(Line):
    kind = "agent"
    text: str
    model: str = ""
    is_draft: bool = False


@dataclass(kw_only=True)
class Child:
    """A session that a call has started, as its parent's log speaks of it."""

    session_id: UUID
    title: str
    task: str
    status: str = "running"
    result: str = ""

    @property
    def lamp(self) -> tuple[str, str]:
        return CHILD_LAMPS.get(self.status, CHILD_LAMPS["cancelled"])


@dataclass(kw_only=True)
class Call(Line):
    """A tool call, from what the log says of it so far."""

    kind = "call"
    tool_use_id: str
    name: str
    input: dict[str, Any] = field(default_factory=dict)
    decision: str = "allow"
    decided_by: str = ""
    answered: str = ""
    answered_by: str = ""
    answered_at: datetime | None = None
    scope: str = "once"
    note: str = ""
    #: A person had it run once more, or said what had become of it.
    again: bool = False
    verified_by: str = ""
    result: str = ""
    output: Any = None
    error: str = ""
    duration_ms: int | None = None
    child: Child | None = None
    #: What the session is doing, which decides what an open call is.
    session_status: str = "idle"

    @property
    def state(self) -> str:
        """The one answer to what became of it."""
        if self.result:
            return self.result
        if self.decision == "deny" or self.answered == "deny":
            return "denied"
        is_open = self.session_status in {"running", "requires_action", "rescheduling"}
        if not is_open:
            return "unknown"
        if self.decision == "ask" and not self.answered:
            return "awaiting_approval"
        return "running" if self.session_status == "running" else "pending"

    @property
    def lamp(self) -> str:
        return LAMPS.get(self.state, LAMPS["unknown"])[0]

    @property
    def state_word(self) -> str:
        return LAMPS.get(self.state, LAMPS["unknown"])[1]

    @property
    def words(self) -> Words:
        return words_of(self.name)

    @property
    def subject(self) -> str:
        return subject_of(self.name, self.input)

    @property
    def ending(self) -> str:
        """Who answered and when, a word when something is unusual, and how long it took."""
        who = self.rule if self.answered or self.verified_by else ""
        if who and self.answered_at:
            who = f"{who} at {self.answered_at:%H:%M}"
        is_usual = self.state in {"completed", "running"} or (self.state == "denied" and who)
        parts = [who, "" if is_usual else self.state_word, duration(self.duration_ms)]
        return " · ".join(filter(None, parts))

    @property
    def rule(self) -> str:
        """Who let it run, or did not."""
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
        return f"Allowed {EXTENT.get(self.scope, 'once')}" if self.answered == "allow" else "Denied"

    @property
    def covers(self) -> str:
        """What a yes for the whole session would cover."""
        return covers(registry.get(self.name))

    @property
    def why(self) -> str:
        """Why it asks, in plain words."""
        return why(self.decided_by)

    @property
    def arguments(self) -> str:
        return orjson.dumps(self.input, option=orjson.OPT_INDENT_2, default=str).decode()

    @property
    def said(self) -> str:
        """The result as text, cut where nobody reads on."""
        whole = self.output
        if not isinstance(whole, str):
            whole = (
                "" if whole is None else orjson.dumps(whole, option=orjson.OPT_INDENT_2).decode()
            )
        return whole if len(whole) <= SHOWN else f"{whole[:SHOWN]}…"


@dataclass(kw_only=True)
class Trouble(Line):
    kind = "trouble"
    message: str
    code: str = ""
    run_id: UUID | None = None
    #: A button can try again; not after something else has started.
    retryable: bool = False

    @property
    def help(self) -> tuple[str, str] | None:
        """Where one can do something about it, in words and as an address."""
        return HELP.get(self.code)


@dataclass(kw_only=True)
class Note(Line):
    kind = "note"
    text: str
    link: UUID | None = None


@dataclass(kw_only=True)
class Compaction(Line):
    kind = "compaction"
    text: str
