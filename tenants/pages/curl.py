"""A command that can be pasted into a terminal, made for one workspace."""

from __future__ import annotations

import json
from shlex import quote
from uuid import UUID

from django.apps import apps
from django.http import HttpRequest
from django.urls import reverse

PLACEHOLDER = "YOUR_KEY"


def talk(request: HttpRequest, workspace_id: UUID, *, secret: str = PLACEHOLDER) -> str:
    """Say hello to the workspace's oldest agent; without one, list the agents."""
    name = oldest_agent(workspace_id)
    if name is None:
        return look(request, secret=secret)
    body = json.dumps({"agent": name, "session_key": "first", "message": "list the files"})
    url = request.build_absolute_uri(reverse("runtime"))
    return " \\\n".join(
        [
            f"curl {url}",
            f"  -H {quote(f'x-api-key: {secret}')}",
            "  -H 'content-type: application/json'",
            f"  -d {quote(body)}",
        ]
    )


def look(request: HttpRequest, *, secret: str = PLACEHOLDER) -> str:
    """List the agents: what every key may do."""
    url = request.build_absolute_uri(reverse("agent-list"))
    return f"curl {url} \\\n  -H {quote(f'x-api-key: {secret}')}"


def oldest_agent(workspace_id: UUID) -> str | None:
    """Its name. Agents lie to the right of tenants, hence the string."""
    agents = apps.get_model("agents.Agent")._default_manager
    rows = agents.filter(workspace_id=workspace_id, archived_at=None).order_by("created_at", "pk")
    name: str | None = rows.values_list("current__name", flat=True).first()
    return name
