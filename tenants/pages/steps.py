"""The first steps of a newcomer. Each ticks itself off when what it asks for is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from django.apps import apps

from tenants.access import Principal, Verb
from tenants.models import ApiKey, Invitation, Membership
from tenants.pages.rail import url_of


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something worth doing first. It is offered as soon as its page exists."""

    name: str
    title: str
    words: str
    action: str
    url_name: str
    needs: Verb
    is_done: Callable[[Principal, UUID], bool]


@dataclass(frozen=True, kw_only=True)
class Todo:
    """A step as one person sees it."""

    step: Step
    url: str
    is_done: bool
    is_next: bool


def has_password(principal: Principal, workspace_id: UUID) -> bool:
    return principal.user is None or principal.user.has_usable_password()


def has_rows(label: str) -> Callable[[Principal, UUID], bool]:
    """Whether the workspace has a row of a model that lies to the right, hence the string."""

    def look(principal: Principal, workspace_id: UUID) -> bool:
        rows = apps.get_model(label)._default_manager
        return rows.filter(workspace_id=workspace_id).exists()

    return look


def has_key(principal: Principal, workspace_id: UUID) -> bool:
    return ApiKey.objects.for_workspace(workspace_id).valid().exists()


def has_company(principal: Principal, workspace_id: UUID) -> bool:
    others = Membership.objects.for_workspace(workspace_id).exclude(user=principal.user)
    return others.exists() or Invitation.objects.for_workspace(workspace_id).exists()


STEPS = [
    Step(
        name="password",
        title="Choose a password",
        words="You came in by a link that works once. A password brings you back.",
        action="Choose",
        url_name="password",
        needs="read",
        is_done=has_password,
    ),
    Step(
        name="talk",
        title="Talk to an agent",
        words="Three example agents are ready. The demo needs no key and uses the real tools.",
        action="Open chat",
        url_name="chat",
        needs="run",
        is_done=has_rows("sessions_app.Session"),
    ),
    Step(
        name="model",
        title="Add a model key",
        words="Bring your own Gemini or OpenAI-compatible model. The key is stored encrypted.",
        action="Add a key",
        url_name="providers",
        needs="admin",
        is_done=has_rows("agents.ProviderKey"),
    ),
    Step(
        name="key",
        title="Call it from your code",
        words="An API key lets a program talk to this workspace.",
        action="Make a key",
        url_name="key_new",
        needs="admin",
        is_done=has_key,
    ),
    Step(
        name="invite",
        title="Invite somebody",
        words="Builders make agents, viewers watch them, admins hold the keys.",
        action="Invite",
        url_name="members",
        needs="admin",
        is_done=has_company,
    ),
]


def todos(principal: Principal, workspace_id: UUID) -> list[Todo]:
    """The steps this person can take here, with the first open one marked."""
    found: list[Todo] = []
    for step in STEPS:
        url = url_of(step.url_name)
        if url is None or not principal.may(step.needs):
            continue
        done = step.is_done(principal, workspace_id)
        if done and step.name == "password":
            continue  # Whoever signed up with one need not hear of it.
        is_next = not done and not any(todo.is_next for todo in found)
        found.append(Todo(step=step, url=url, is_done=done, is_next=is_next))
    return found
