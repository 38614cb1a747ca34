"""The inbox: everything that waits for a person's yes or no, and what was answered."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import orjson
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from config.faults import Conflict, Forbidden, Invalid, NotFound, NothingToAnswer, SessionEnded
from config.redaction import redact, redact_text
from sessions_app.approval_answer import said_of
from sessions_app.approvals import Answer, count_pending, resolve
from sessions_app.models import Approval
from sessions_app.pages.forms import DecisionForm
from sessions_app.pages.words import why
from sessions_app.tool_words import Words, words_of
from tenants.access import Principal, authorise
from tenants.authentication import principal_of
from tenants.pages.rail import COUNTS, LIVE, LiveCount

#: Questions and answers that one page shows.
PENDING, ANSWERED = 100, 50
#: The workflow whose question is a command or a prompt, to be read to the letter; others ask in Markdown.
EXACT = "execute-task"
LAMPS = {"allowed": "is-done", "denied": "is-failed", "expired": "is-waiting"}
COUNTS["approvals"] = count_pending
LIVE["approvals"] = lambda workspace_id: LiveCount(socket="/ws/approvals/", member="pending")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One question or answer, as the page shows it to this reader."""

    approval: Approval
    may_run: bool

    @property
    def title(self) -> str:
        return self.approval.title if self.may_run else redact_text(self.approval.title)

    @property
    def is_call(self) -> bool:
        return self.approval.execution is not None

    @property
    def words(self) -> Words:
        return words_of(self.approval.execution.name if self.approval.execution else "")

    @property
    def why(self) -> str:
        return why(self.approval.reason) if self.is_call else self.approval.reason

    @property
    def arguments(self) -> str:
        approval = self.approval
        asked = approval.input if approval.edited_input is None else approval.edited_input
        shown = asked if self.may_run else redact(asked)
        return orjson.dumps(shown, option=orjson.OPT_INDENT_2, default=str).decode()

    @property
    def message(self) -> str:
        """What a workflow's question is about."""
        said = str(self.approval.input.get("message") or "")
        return said if self.may_run else redact_text(said)

    @property
    def is_exact(self) -> bool:
        """Whether the message is shown as it is, sign by sign."""
        return self.approval.input.get("workflow") == EXACT

    @property
    def details(self) -> str:
        """What else belongs to a workflow's question, a tool's arguments for one."""
        given = self.approval.input.get("details")
        shown = given if self.may_run else redact(given)
        return (
            orjson.dumps(shown, option=orjson.OPT_INDENT_2, default=str).decode() if given else ""
        )

    @property
    def said(self) -> str:
        return said_of(self.approval)

    @property
    def lamp(self) -> str:
        return LAMPS.get(self.approval.status, "")


@never_cache
@require_safe
def approvals(request: HttpRequest) -> HttpResponse:
    """What waits, the oldest first, and below it what was answered."""
    principal = principal_of(request)
    authorise(principal, "read")
    waiting = asked(principal, "pending")
    context = {
        "waiting": waiting[:PENDING],
        "more": len(waiting) > PENDING,
        "pending": count_pending(authorise(principal, "read")) if waiting else 0,
        "answered": asked(principal, "answered"),
        "may_run": principal.may("run"),
        "may_admin": principal.may("admin"),
    }
    return render(request, "pages/approvals/approvals.html", context)


def asked(principal: Principal, which: str) -> list[Asked]:
    """One query, however many there are."""
    rows = Approval.objects.for_workspace(principal.workspace_id)
    rows = rows.select_related("session", "agent__current", "execution")
    if which == "pending":
        found = rows.pending().order_by("created_at", "pk")[: PENDING + 1]
    else:
        found = rows.exclude(status="pending").order_by("-created_at", "-pk")[:ANSWERED]
    return [Asked(approval=one, may_run=principal.may("run")) for one in found]


@require_POST
def answer(request: HttpRequest, approval_id: UUID) -> HttpResponse:
    """Allow or deny, for browsers without a script."""
    principal = principal_of(request)
    rows = Approval.objects.for_workspace(authorise(principal, "run"))
    approval = rows.filter(pk=approval_id).first()
    if approval is None:
        raise NotFound
    form = DecisionForm(request.POST)
    try:
        if not form.is_valid():
            raise Invalid(str(next(iter(form.errors.values()))[0]))
        resolve(approval, Answer(**form.cleaned_data), principal)
    except (Conflict, Forbidden, Invalid, NothingToAnswer, SessionEnded) as fault:
        messages.error(request, fault.detail)
    return redirect("approvals")
