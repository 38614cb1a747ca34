"""What one line of a conversation is, as the server writes it and the island redraws it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

import orjson

from sessions_app.pages.words import Words, duration, subject_of, words_of

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


@dataclass(kw_only=True)
class FromPerson(Line):
    kind = "person"
    text: str
    author: str
    #: It joined an answer that was being written.
    steered: bool = False


@dataclass(kw_only=True)
class FromAgent(Line):
    kind = "agent"
    text: str
    model: str = ""
    is_draft: bool = False


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
    result: str = ""
    output: Any = None
    error: str = ""
    duration_ms: int | None = None
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
        """A word when something is unusual, and how long it took."""
        is_usual = self.state in {"completed", "running"}
        parts = ["" if is_usual else self.state_word, duration(self.duration_ms)]
        return " · ".join(filter(None, parts))

    @property
    def rule(self) -> str:
        """Who let it run, or did not."""
        if self.answered:
            verb = "Allowed once" if self.answered == "allow" else "Denied"
            return f"{verb} by {self.answered_by}" if self.answered_by else verb
        return f"Decided by {self.decided_by}" if self.decided_by else ""

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
    run_id: UUID | None = None
    #: A button can try again; not after something else has started.
    retryable: bool = False


@dataclass(kw_only=True)
class Note(Line):
    kind = "note"
    text: str
    link: UUID | None = None
