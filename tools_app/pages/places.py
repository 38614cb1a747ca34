"""The places that have a policy, as a person chooses one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.apps import apps
from django.urls import reverse

from agents.models import Agent, Environment
from tools_app.models import ToolPolicy
from tools_app.places import Place
from tools_app.policy import LayerName

MOST_AGENTS = 200
MOST_SESSIONS = 30
TITLES = {
    "workspace": "Workspace ceiling",
    "agent": "Agent",
    "environment": "Environment",
    "session": "Session",
}
WORDS = {
    "workspace": "Binds every agent of this workspace. Nothing below can be freer than this.",
    "agent": "What this agent may use, within the workspace's ceiling.",
    "environment": "Binds every run in this environment, whichever agent it is.",
    "session": "Binds this one conversation, on top of everything else.",
}


@dataclass(frozen=True, kw_only=True)
class Option:
    url: str
    name: str
    has_rules: bool
    is_current: bool


def url_of(place: Place) -> str:
    if place.layer == "workspace":
        return reverse("policies")
    return reverse(f"policy_of_{place.layer}", args=[place.subject_id])


def options(workspace_id: UUID, current: Place) -> dict[str, list[Option]]:
    """Every place that can be chosen, by kind; the newest sessions only, and the one that is open."""
    said = set(
        ToolPolicy.objects.for_workspace(workspace_id)
        .filter(revision__gt=0)
        .values_list("subject_id", flat=True)
    )
    named: list[tuple[LayerName, UUID, str]] = [("workspace", workspace_id, "Workspace ceiling")]
    named += [("agent", pk, name) for pk, name in _agents(workspace_id)]
    environments = Environment.objects.for_workspace(workspace_id).order_by("name")
    named += [("environment", pk, name) for pk, name in environments.values_list("pk", "name")]
    named += _sessions(workspace_id, current)
    groups: dict[str, list[Option]] = {}
    for layer, subject_id, name in named:
        place = Place(workspace_id=workspace_id, layer=layer, subject_id=subject_id)
        groups.setdefault(layer, []).append(
            Option(
                url=url_of(place),
                name=name,
                has_rules=subject_id in said,
                is_current=subject_id == current.subject_id,
            )
        )
    return groups


def _agents(workspace_id: UUID) -> list[tuple[UUID, str]]:
    rows = Agent.objects.for_workspace(workspace_id).active().known()
    return list(rows.order_by("current__name").values_list("pk", "current__name")[:MOST_AGENTS])


def _sessions(workspace_id: UUID, current: Place) -> list[tuple[LayerName, UUID, str]]:
    """Sessions are to the right of this app, so by their name."""
    rows: Any = apps.get_model("sessions_app.Session")._default_manager
    owned = rows.for_workspace(workspace_id)
    found = list(owned.order_by("-active_at").values_list("pk", "title")[:MOST_SESSIONS])
    if current.layer == "session" and current.subject_id not in dict(found):
        found += owned.filter(pk=current.subject_id).values_list("pk", "title")
    return [("session", pk, title or "Session without a title") for pk, title in found]
