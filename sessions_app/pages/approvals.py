"""The page of approvals: pending questions and recent answers."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from core.exceptions import Conflict, Forbidden, Invalid, NotFound
from core.logging import redact, redact_text
from core.text import reveal
from sessions_app.approvals.approvals import (
    TITLE_LENGTH,
    ApprovalAnswer,
    answer_approval,
    count_pending,
    describe_answer,
)
from sessions_app.exceptions import NothingToAnswer, SessionEnded
from sessions_app.models import Approval
from sessions_app.pages.chat import DecisionForm, first_error, with_values
from sessions_app.pages.labels import approval_reason
from sessions_app.pages.transcript_lines import as_json, question_of
from sessions_app.tool_labels import ToolLabel, tool_label
from tenants.access import Principal, authorise
from tenants.authentication import principal_of
from tools_app.questions import Question

#: Pending and answered approvals that one page shows.
MAX_PENDING, MAX_ANSWERED = 100, 50
#: The workflow that asks about a command or a prompt, shown verbatim. Others ask in Markdown.
EXACT = "execute-task"
LAMPS = {"allowed": "is-done", "denied": "is-failed", "expired": "is-waiting"}


@dataclass(frozen=True, kw_only=True)
class ApprovalCard:
    """An approval as the page shows it. Likely secrets are redacted for viewers."""

    approval: Approval
    may_run: bool

    @property
    def title(self) -> str:
        return self._shown(self.approval.title)

    @property
    def is_call(self) -> bool:
        return self.approval.execution is not None

    @property
    def label(self) -> ToolLabel:
        return tool_label(self.approval.execution.name if self.approval.execution else "")

    @property
    def why(self) -> str:
        return approval_reason(self.approval.reason) if self.is_call else self.approval.reason

    @property
    def ident(self) -> str:
        return str(self.approval.pk)

    @property
    def form(self) -> Question | None:
        """Return the form of a question, or None for an approval."""
        approval = self.approval
        return question_of(approval.execution.name, approval.input) if approval.execution else None

    @property
    def has_long_text(self) -> bool:
        """Return whether the title shows only the beginning of the question."""
        return self.form is not None and len(self.form.question) >= TITLE_LENGTH

    @property
    def arguments(self) -> str:
        approval = self.approval
        arguments = approval.input if approval.edited_input is None else approval.edited_input
        return self._as_json(arguments)

    @property
    def message(self) -> str:
        """Return the text of a workflow's question."""
        return self._shown(str(self.approval.input.get("message") or ""))

    @property
    def is_exact(self) -> bool:
        """Return whether the message is shown verbatim."""
        return self.approval.input.get("workflow") == EXACT

    @property
    def details(self) -> str:
        """Return further facts of a workflow's question, such as a tool's arguments."""
        details = self.approval.input.get("details")
        return self._as_json(details) if details else ""

    @property
    def answer(self) -> str:
        return describe_answer(self.approval)

    @property
    def lamp(self) -> str:
        return LAMPS.get(self.approval.status, "")

    def _shown(self, text: str) -> str:
        return reveal(text if self.may_run else redact_text(text))

    def _as_json(self, value: object) -> str:
        return as_json(value if self.may_run else redact(value))


@never_cache
@require_safe
def approvals(request: HttpRequest) -> HttpResponse:
    """Show pending approvals, oldest first, and below them the recent answers."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    pending = list_approvals(principal, "pending")
    context = {
        "waiting": pending[:MAX_PENDING],
        "more": len(pending) > MAX_PENDING,
        "pending": count_pending(workspace_id) if pending else 0,
        "answered": list_approvals(principal, "answered"),
        "may_run": principal.may("run"),
        "may_admin": principal.may("admin"),
    }
    return render(request, "pages/approvals/approvals.html", context)


def list_approvals(principal: Principal, which: str) -> list[ApprovalCard]:
    """Return the `pending` or the `answered` approvals of the workspace, in one query."""
    rows = Approval.objects.for_workspace(principal.workspace_id)
    rows = rows.select_related("session", "agent__current", "execution")
    if which == "pending":
        page = rows.pending().order_by("created_at", "pk")[: MAX_PENDING + 1]
    else:
        page = rows.exclude(status="pending").order_by("-created_at", "-pk")[:MAX_ANSWERED]
    may_run = principal.may("run")
    return [ApprovalCard(approval=approval, may_run=may_run) for approval in page]


@require_POST
def answer(request: HttpRequest, approval_id: UUID) -> HttpResponse:
    """Allow or deny, for browsers without scripts."""
    principal = principal_of(request)
    rows = Approval.objects.for_workspace(authorise(principal, "run"))
    approval = rows.select_related("execution", "session").filter(pk=approval_id).first()
    if approval is None:
        raise NotFound
    form = DecisionForm(request.POST)
    try:
        if not form.is_valid():
            raise Invalid(first_error(form))
        answer = with_values(request, form.cleaned_data, approval)
        answer_approval(approval, ApprovalAnswer(**answer), principal)
    except (Conflict, Forbidden, Invalid, NothingToAnswer, SessionEnded) as fault:
        messages.error(request, fault.detail)
    return redirect("approvals")
