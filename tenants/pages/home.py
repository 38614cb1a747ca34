"""The home page: what waits for the user, what happened last, and first steps for newcomers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from agents.models import ProviderKey
from agents.pages.agents import recent_sessions
from core.exceptions import Unauthenticated
from orchestrator.pages.workflows import WorkflowFilter, row_of
from orchestrator.pages.workflows import filtered_workflows as list_workflows
from sessions_app.approvals.approvals import count_pending
from sessions_app.models import Session
from sessions_app.pages.approvals import list_approvals
from sessions_app.pages.sessions import status_label
from tenants.access import Principal, Verb, authorise
from tenants.authentication import principal_of
from tenants.billing.credits import get_balance
from tenants.models import ApiKey, Invitation, Membership
from tenants.notifications.inbox import items_of
from tenants.pages.workspace import curl_example

#: Items that each section shows.
MAX_ITEMS = 3


@dataclass(frozen=True, kw_only=True)
class HomeItem:
    title: str
    url: str
    at: datetime
    lamp: str = ""
    status: str = ""
    #: The agent or workflow that it belongs to.
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class HomeSection:
    """A heading, some items, and a link to the page with all of them."""

    title: str
    url: str
    more: str
    lines: list[HomeItem]
    #: How many there are in all, or 0 where that does not matter.
    count: int = 0


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    if not principal.is_authenticated:
        raise Unauthenticated
    if principal.workspace_id is None:
        return redirect("workspace_new")
    workspace_id = authorise(principal, "read")
    steps = todos(principal, workspace_id)
    sections = sections_for(principal, workspace_id)
    balance = get_balance(workspace_id)
    context = {
        "balance": balance,
        "may_grant": principal.may("own") and principal.is_staff,
        "may_run": principal.may("run"),
        "parts": sections,
        # A workspace with activity only shows the steps that are left.
        "todos": [todo for todo in steps if not (sections and todo.is_done)],
        "step_count": len(steps),
        "done_count": sum(todo.is_done for todo in steps),
        "role": principal.role,
        "member_count": Membership.objects.for_workspace(workspace_id).count(),
        "key_count": ApiKey.objects.for_workspace(workspace_id).valid().count(),
        "curl": curl_example(request, workspace_id),
    }
    return render(request, "pages/home.html", context)


def sections_for(principal: Principal, workspace_id: UUID) -> list[HomeSection]:
    """Return the sections that are not empty: what waits first, then what happened last."""
    sections = (
        pending_approvals(principal, workspace_id),
        unread_items(principal),
        recent(workspace_id),
        workflows(workspace_id),
    )
    return [section for section in sections if section.lines]


def pending_approvals(principal: Principal, workspace_id: UUID) -> HomeSection:
    count = count_pending(workspace_id)
    url = reverse("approvals")
    # Members who only read cannot answer.
    title = "Needs you" if principal.may("run") else "Waiting for an answer"
    lines = [
        HomeItem(
            title=each.title,
            url=f"{url}#asked-{each.approval.pk}",
            at=each.approval.created_at,
            lamp="is-waiting",
            status=title,
            note=str(each.approval.agent or "A workflow"),
        )
        for each in (list_approvals(principal, "pending")[:MAX_ITEMS] if count else ())
    ]
    more = "Answer" if principal.may("run") else "Read"
    return HomeSection(title=title, url=url, more=more, lines=lines, count=count)


def unread_items(principal: Principal) -> HomeSection:
    """Return unread inbox items, without approvals, which have their own section."""
    items = items_of(principal).filter(is_read=False).exclude(kind="approval")
    lines = [
        HomeItem(
            title=item.title,
            url=reverse("inbox_item", args=[item.pk]),
            at=item.created_at,
            lamp="is-failed" if item.kind == "warning" else "",
            status=item.get_kind_display(),
        )
        for item in items.order_by("-created_at", "-pk")[:MAX_ITEMS]
    ]
    return HomeSection(title="Unread", url=reverse("inbox"), more="Inbox", lines=lines)


def recent(workspace_id: UUID) -> HomeSection:
    lines = []
    for session in recent_sessions(workspace_id):
        lamp, status = status_label(session)
        lines.append(
            HomeItem(
                title=session.title or "New chat",
                url=reverse("chat_session", args=[session.pk]),
                at=session.active_at,
                lamp=lamp,
                status=status,
                note=str(session.agent),
            )
        )
    return HomeSection(title="Recent", url=reverse("sessions"), more="All sessions", lines=lines)


def workflows(workspace_id: UUID) -> HomeSection:
    lines = [
        HomeItem(
            title=row.subject or row.workflow.name,
            url=reverse("workflow", args=[row.workflow.pk]),
            at=row.workflow.created_at,
            lamp=row.lamp,
            status=row.status,
            note=row.workflow.name if row.subject else "",
        )
        for row in map(row_of, list_workflows(workspace_id, WorkflowFilter())[:MAX_ITEMS])
    ]
    return HomeSection(
        title="Workflows", url=reverse("workflows"), more="All workflows", lines=lines
    )


@dataclass(frozen=True, kw_only=True)
class Step:
    """A first step for a new workspace or user."""

    name: str
    title: str
    words: str
    action: str
    url_name: str
    needs: Verb
    is_done: Callable[[Principal, UUID], bool]


@dataclass(frozen=True, kw_only=True)
class Todo:
    """A step as one user sees it."""

    step: Step
    url: str
    is_done: bool
    is_next: bool


def has_company(principal: Principal, workspace_id: UUID) -> bool:
    others = Membership.objects.for_workspace(workspace_id).exclude(user=principal.user)
    return others.exists() or Invitation.objects.for_workspace(workspace_id).exists()


STEPS = [
    Step(
        name="password",
        title="Choose a password",
        words="You signed in with a link that works once. Set a password to come back.",
        action="Choose",
        url_name="password",
        needs="read",
        is_done=lambda principal, _: not principal.user or principal.user.has_usable_password(),
    ),
    Step(
        name="talk",
        title="Talk to an agent",
        words="Three example agents are ready. The demo model needs no key and uses the real tools.",
        action="Open chat",
        url_name="chat",
        needs="run",
        is_done=lambda _, workspace_id: Session.objects.for_workspace(workspace_id).exists(),
    ),
    Step(
        name="model",
        title="Add a model key",
        words="Bring your own Gemini, Anthropic or OpenAI-compatible model. The key is stored encrypted.",
        action="Add a key",
        url_name="providers",
        needs="admin",
        is_done=lambda _, workspace_id: ProviderKey.objects.for_workspace(workspace_id).exists(),
    ),
    Step(
        name="key",
        title="Call it from your code",
        words="An API key lets a program talk to this workspace.",
        action="Make a key",
        url_name="key_new",
        needs="admin",
        is_done=lambda _, workspace_id: ApiKey.objects.for_workspace(workspace_id).valid().exists(),
    ),
    Step(
        name="invite",
        title="Invite someone",
        words="Builders create agents, viewers watch them, admins manage keys and members.",
        action="Invite",
        url_name="members",
        needs="admin",
        is_done=has_company,
    ),
]


def todos(principal: Principal, workspace_id: UUID) -> list[Todo]:
    """Return the steps that this user can take, with the first open one marked as next."""
    steps: list[Todo] = []
    for step in STEPS:
        if not principal.may(step.needs):
            continue
        done = step.is_done(principal, workspace_id)
        if done and step.name == "password":
            continue  # users who signed up with a password need no reminder
        is_next = not done and not any(todo.is_next for todo in steps)
        url = reverse(step.url_name)
        steps.append(Todo(step=step, url=url, is_done=done, is_next=is_next))
    return steps
